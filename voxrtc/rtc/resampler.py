"""Sound of one rate to another, for one stream."""

from __future__ import annotations

import av
import numpy as np
from av.filter import Graph

from voxrtc.rtc.sound import RATE, Samples


class Resampler:
    """PCM16 of any rate to samples at `RATE`, or what `rate` says, for one stream: state is kept from chunk to chunk, no
    sample is lost.

    libswresample keeps 16 samples back at 48 kHz; soxr HQ would keep 31 ms, which is slack taken from every
    stream's start. `av.AudioResampler` would start two threads for each stream, which have nothing to do.
    """

    def __init__(self, rate: int = RATE) -> None:
        self._to, self._rate = rate, 0
        self._graph: Graph | None = None

    def __call__(self, pcm: bytes, sample_rate: int) -> Samples:
        """Little-endian mono `pcm` at `sample_rate`. Raises `ValueError` when it is no PCM16 or changes its rate."""
        if len(pcm) % 2 or sample_rate <= 0:
            raise ValueError(f"{len(pcm)} bytes at {sample_rate} Hz are no PCM16")
        if self._rate not in (0, sample_rate):
            raise ValueError(f"the sample rate changed from {self._rate} to {sample_rate} within a stream")
        self._rate = sample_rate
        if self._to == sample_rate or not pcm:
            return np.frombuffer(pcm, np.int16).copy()
        if self._graph is None:
            self._graph = _graph(sample_rate, self._to)
        frame = av.AudioFrame(format="s16", layout="mono", samples=len(pcm) // 2)
        frame.sample_rate = sample_rate
        frame.planes[0].update(pcm)
        return _through(self._graph, frame)

    def flush(self) -> Samples:
        """What is kept back; nothing may follow."""
        return np.zeros(0, np.int16) if self._graph is None else _through(self._graph, None)


def _graph(rate: int, to: int) -> Graph:
    graph = Graph()
    graph.threads = 1
    source = graph.add("abuffer", sample_rate=str(rate), sample_fmt="s16", channel_layout="mono", time_base=f"1/{rate}")
    target = graph.add("aformat", sample_rates=str(to), sample_fmts="s16", channel_layouts="mono")
    sink = graph.add("abuffersink")
    source.link_to(target)
    target.link_to(sink)
    graph.configure()
    return graph


def _through(graph: Graph, frame: av.AudioFrame | None) -> Samples:
    """What comes out when `frame` goes in; None is the end."""
    graph.push(frame)
    parts: list[Samples] = []
    while True:
        try:
            out = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            break
        assert isinstance(out, av.AudioFrame)
        # A plane is padded beyond the frame's samples.
        parts.append(np.frombuffer(bytes(out.planes[0]), np.int16)[: out.samples])
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)
