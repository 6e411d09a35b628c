"""A recording as it is heard, while the person still speaks.

The encoder looks both ways, so a segment can be heard only when it is there as a whole; what is done early is

- a segment of 25 s that is full: the reference cuts a recording just there, so that is exact;
- at a pause, what there is of the last segment, in the hope that nothing follows. If something does, that was in vain, and is
  done anew at the next pause or at the end. Quiet behind the last sound of a segment that is not full is left out of it but for
  `KEPT`, whenever the end comes: so what was heard at a pause is to the bit what would be heard then.

So who has spoken and is silent for `KEPT` before the turn ends waits for no encoder; who is cut off, or speaks in a room that
is never quiet, waits for one pass over 25 s at most. Not even the spectrogram could be had piece by piece, since its floor
hangs on the segment's loudest moment; but it is a thousandth of the work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from voxrtc.speechlm.base import InvalidRequest
from voxrtc.speechlm.stepaudio2.ear import LEAST, RATE, SEGMENT, Ear

BLOCK = RATE // 100  # samples by which loudness is judged; a segment is whole blocks
QUIET = 0.01  # of the loudest block so far: -40 dB
KEPT = RATE // 5  # samples behind the last sound
LONGEST = 240  # seconds


@dataclass
class Hearing:
    """What was heard of a recording so far."""

    vectors: list[Tensor] = field(default_factory=list)  # [n, dim] of each segment, for the language model
    segment: Tensor = field(default_factory=lambda: torch.empty(0))  # samples of the one that is not full
    judged: int = 0  # of these samples, those of which the loudness is known
    sounding: int = 0  # where the last sound ends, from the segment's beginning on; below 0: before that
    loudest: float = 0.0
    guess: tuple[int, Tensor] | None = None  # so many of the segment's samples, heard at a pause
    complete: bool = False

    @property
    def seconds(self) -> float:
        """Of the recording, so far."""
        return (len(self.vectors) * SEGMENT + len(self.segment)) / RATE

    @property
    def end(self) -> int:
        """How much of the segment would be heard if nothing followed."""
        return max(0, min(len(self.segment), self.sounding + KEPT))


def hear(ear: Ear, hearing: Hearing, samples: Tensor, final: bool) -> None:
    """Take further samples [n] at RATE, on any device. In place. Raises `InvalidRequest`."""
    assert not hearing.complete, "a recording that is complete"
    if hearing.seconds + len(samples) / RATE > LONGEST:
        raise InvalidRequest(f"This was longer than {LONGEST // 60} minutes. Please say it in several parts.")
    hearing.segment = torch.cat((hearing.segment, samples.float().cpu()))
    _judge(hearing, final)
    while len(hearing.segment) >= SEGMENT:
        hearing.vectors.append(_vectors(ear, hearing.segment[:SEGMENT]))
        hearing.segment, hearing.guess = hearing.segment[SEGMENT:], None
        hearing.judged, hearing.sounding = hearing.judged - SEGMENT, hearing.sounding - SEGMENT
    if final or hearing.end < len(hearing.segment):
        _guess(ear, hearing)
    if final:
        _finish(hearing)


def _judge(hearing: Hearing, final: bool) -> None:
    """Find out where the last sound ends. The last block of a recording may be shorter."""
    new = hearing.segment[hearing.judged :]
    new = new if final else new[: len(new) // BLOCK * BLOCK]
    blocks = torch.nn.functional.pad(new, (0, -len(new) % BLOCK)).view(-1, BLOCK)
    if not len(blocks):
        return
    levels = blocks.square().mean(1).sqrt()
    loudest = levels.cummax(0).values.clamp(min=hearing.loudest)
    if len(sounds := (levels >= QUIET * loudest).nonzero()):
        hearing.sounding = hearing.judged + BLOCK * (int(sounds[-1]) + 1)
    hearing.judged, hearing.loudest = hearing.judged + len(new), float(loudest[-1])


def _guess(ear: Ear, hearing: Hearing) -> None:
    if hearing.guess is None or hearing.guess[0] != hearing.end:
        hearing.guess = hearing.end, _vectors(ear, hearing.segment[: hearing.end])


def _finish(hearing: Hearing) -> None:
    assert hearing.guess is not None
    if len(rest := hearing.guess[1]):
        hearing.vectors.append(rest)
    if not hearing.vectors:
        raise InvalidRequest(f"Nothing was heard in {hearing.seconds:.2f} seconds of sound. Please say it again.")
    hearing.segment, hearing.guess, hearing.complete = torch.empty(0), None, True


def _vectors(ear: Ear, samples: Tensor) -> Tensor:
    return ear(samples.to(ear.places.weight.device)) if len(samples) >= LEAST else torch.empty(0)
