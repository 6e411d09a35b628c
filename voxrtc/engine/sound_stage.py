"""The second stage of speech, frames to samples: what the engine sees of it, wherever that runs (the paper's disaggregation).

`LocalStage` is a detokenizer in this process, on its own device, which may be another than the language model's.
`process_stage.ProcessStage` is one in a process of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from voxrtc.engine.device import Device
from voxrtc.engine.graphs import Graphs, Recorder, graphs_for
from voxrtc.speechlm.base import Detokenizer, Voice


class BrokenStream(Exception):
    """A stream's numbers are no numbers any more."""


@dataclass(frozen=True)
class Chunk:
    """Frames [n, width] of one stream, on the host, with what `begin` gave for that stream."""

    frames: Tensor
    state: Any
    final: bool


class SoundStage(Protocol):
    """`begin` is called on the engine's thread and never waits; `decode` and `end` on the detokenizer's thread."""

    def begin(self, voice: Voice, seed: int) -> Any:
        """A fresh stream, in a voice of `SpeechLM.voice_of`: what its chunks carry."""
        ...

    def decode(self, chunks: list[Chunk]) -> list[Tensor | Exception]:
        """Samples of each chunk, on the host, or why there are none: a stream that fails harms no other."""
        ...

    def end(self, state: Any) -> None:
        """Nothing more is to come of a stream, whether its sound is whole or not."""
        ...

    def check(self) -> None:
        """`Device.check`, of what it has in this process."""
        ...

    def stop(self) -> None:
        """Let go of all that it holds."""
        ...

    @property
    def graphs(self) -> Graphs | None:
        """Recordings of its calls, where they are made in this process."""
        ...

    @property
    def memory(self) -> float:
        """GB that it holds outside this process."""
        ...


class LocalStage:
    """In this process: the detokenizer computes on its own device, on a GPU in a stream of its own."""

    memory = 0.0

    def __init__(self, detokenizer: Detokenizer, streams: int, recorder: Recorder | None = None) -> None:
        """For up to so many `streams` at a time."""
        self._detokenizer, self._device = detokenizer, Device(detokenizer.device)
        with self._device.detokenizing():
            graphs = graphs_for(detokenizer.device, recorder)
            recorded = graphs is not None and detokenizer.record(streams, graphs.run)  # where its calls have a form for that
            self.graphs = graphs if recorded else None

    @torch.inference_mode()
    def begin(self, voice: Voice, seed: int) -> Any:
        with self._device.detokenizing():
            return self._detokenizer.new_state(seed, voice)

    @torch.inference_mode()
    def decode(self, chunks: list[Chunk]) -> list[Tensor | Exception]:
        """A call that raises is made again stream by stream, and whoever fails alone is failed alone."""
        try:
            with self._device.detokenizing():
                frames = self._device.there([chunk.frames for chunk in chunks])
                states, final = [chunk.state for chunk in chunks], [chunk.final for chunk in chunks]
                samples = self._device.home(self._detokenizer.decode(frames, states, final))
        except Exception as error:  # noqa: BLE001
            return [error] if len(chunks) == 1 else [self.decode([chunk])[0] for chunk in chunks]
        return [s if bool(s.isfinite().all()) else BrokenStream("the detokenizer gave no numbers") for s in samples]

    def end(self, state: Any) -> None:
        """It goes with whoever held it."""

    def check(self) -> None:
        self._device.check()

    def stop(self) -> None:
        """It goes with the process."""
