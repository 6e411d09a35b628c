"""Opus as we send it: mono, usually complexity 5, low delay, 48 kb/s."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import av
import numpy as np

from voxrtc.rtc.one_core import one_core
from voxrtc.rtc.playout import Frame
from voxrtc.rtc.quality import CLEAN, Quality
from voxrtc.rtc.sound import FRAME, RATE, Samples

# Ours alone: in a shared executor a few blocked jobs of others would hold the sound up. One thread encodes for 700 who speak;
# two would take the interpreter from each other, twice a frame.
EXECUTOR = ThreadPoolExecutor(max_workers=1, thread_name_prefix="opus")


# Who begins to speak when as many do gets the cheapest encoder, so that there is time for everybody's packets: 27 us a frame
# in place of 44, for 18.2 dB of signal to noise in place of 19.7 (segments of Lark's speech; PLCMOS 4.54 and 4.62). The same
# sound brought to 48 kHz first would take 30 and 51 us, and be worse: 17.5 and 18.7 dB, PLCMOS 4.48 and 4.54.
MANY = 40
COMPLEXITY, CHEAPEST = 5, 0

NO_SOUND: Samples = np.zeros(FRAME, np.int16)


class OpusEncoder:
    """Encodes the frames of one run (`playout.Frame`). Use it from one thread at a time.

    What a packet says of loudness is a difference to the packet before, and a fresh decoder starts elsewhere than one that
    has played silence. A run follows silence, or its first frame has a primer, so that is what a run's encoder encodes first.
    """

    def __init__(self, run: int, quality: Quality = CLEAN, complexity: int = COMPLEXITY) -> None:
        self.run = run
        self._primed = False
        self._codec = av.CodecContext.create("libopus", "w")
        self._codec.format = "s16"
        self._codec.layout = "mono"
        self._codec.sample_rate = RATE
        self._codec.bit_rate = quality.bit_rate
        self._codec.options = {"application": "lowdelay", "compression_level": f"{complexity}"}
        if quality.expected:
            self._codec.options |= {"application": "voip", "fec": "1", "packet_loss": f"{quality.expected}"}

    def encode(self, frames: list[Frame]) -> None:
        """Set the payload of each frame."""
        for frame in frames:
            if not self._primed:
                with one_core():  # what it has of libav is made with its first frame
                    self._packet(NO_SOUND if frame.primer is None else frame.primer)
                self._primed = True
            elif frame.primer is not None:
                self._packet(frame.primer)
            frame.payload = self._packet(frame.pcm)

    def _packet(self, pcm: Samples) -> bytes:
        frame = av.AudioFrame(format="s16", layout="mono", samples=FRAME)
        frame.sample_rate = RATE
        frame.planes[0].update(pcm.tobytes())
        (packet,) = self._codec.encode(frame)
        return bytes(packet)


def _silence() -> bytes:
    frame = Frame(0, NO_SOUND)
    OpusEncoder(0).encode([frame])
    assert frame.payload
    return frame.payload


SILENCE = _silence()  # 3 bytes, that say just that: they may follow anything, and any run may follow them


SETTLED = 25  # frames of silence after which hardly any is sent
ALIVE = 20  # frames: then one in so many, as Opus encoders do it that use DTX (RFC 7587, 3.1.3)
NOTHING = SILENCE[:1]  # an Opus frame without a byte: the decoder goes on with the silence that it plays


def silence(frames: int) -> bytes | None:
    """The packet of the `frames`th frame of a silence; None: it is not sent. Most of what an idle listener costs is sending."""
    if frames <= SETTLED:
        return SILENCE
    return NOTHING if frames % ALIVE == 0 else None
