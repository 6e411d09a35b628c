"""A stream's life, from the text that a listener asked for to the last sample handed over."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from voxrtc.engine.kv_cache import Evicted
from voxrtc.engine.running import Running
from voxrtc.engine.words import Words
from voxrtc.engine.writing import Writing
from voxrtc.messages.engine import EngineReply, Generate, Playout, Queued, Timing
from voxrtc.speechlm.base import Prompt, Turn

HEAD_START = 60.0  # seconds by which priority goes before others at the door; bounded, so that it can starve nobody


class State(Enum):
    """Where a stream is. The last four are final."""

    WAITING = "waiting"  # for its prompt, or at the door
    STARTING = "starting"  # in the engine, nothing handed over yet
    PLAYING = "playing"  # some of its sound is with the listener
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"
    DISMISSED = "dismissed"  # a background stream whose place a listener needed


@dataclass(frozen=True)
class Passage:
    """As much of a stream's text as one prompt takes: how the model has it, and what that was made of."""

    text: str
    source: str
    before: int  # characters of the stream's text before its own


@dataclass
class Piece:
    """The prompt being spoken: a sentence or so. A long text is several, one after the other."""

    text: str
    prompt: Prompt
    detokenizer: Any  # streaming state of this piece
    words: Words
    position: int  # tokens in the cache
    before: int = 0  # frames that the detokenizer has of its voice
    made: int = 0  # frames sampled
    silent: int = 0  # of these, frames that took in text and are none of the sound's
    kept: list[Tensor] | None = None  # all of them, where the model remembers
    pending: list[Tensor] = field(default_factory=list)  # those with sound that the detokenizer has not seen, and the last
    complete: bool = False  # the model has nothing more to say
    writing: Writing | None = None  # where the model writes its words itself

    @property
    def prefill_left(self) -> int:
        """Prompt tokens that are not in the cache yet."""
        return max(0, self.prompt.length - self.position)

    @property
    def asked_for_all(self) -> bool:
        """Steps for all its frames have begun, though not all may be done: the last prompt token's step gives the first."""
        return self.position >= self.prompt.length + self.prompt.max_frames - 1

    @property
    def starved(self) -> bool:
        """Its text is used up, with the steps that are under way, and more will come."""
        asked = max(0, self.position - self.prompt.length + 1)
        return self.prompt.reach is not None and len(self.words.ends) + asked - self.made >= self.prompt.reach

    def grow(self, prompt: Prompt) -> None:
        """There is more of its text."""
        self.prompt, self.words.words, self.words.characters = prompt, prompt.words, prompt.characters

    def add(self, frame: Tensor, last: bool, passes: int, silent: bool) -> None:
        """Take a sampled frame [width], with which so many units of the text end.

        Its length is bounded by the prompt whatever the model thinks.
        """
        self.made, self.silent = self.made + 1, self.silent + silent
        self.words.passed(self.made - self.silent, passes)
        self.complete = last or self.made >= self.prompt.max_frames
        if not silent or self.complete:
            self.pending.append(frame)
        if self.kept is not None:
            self.kept.append(frame)

    def take(self, count: int) -> Tensor:
        """The next `count` >= 1 pending frames [count, width], which count as seen from now on."""
        frames, self.pending = self.pending[:count], self.pending[count:]
        return torch.stack(frames)


@dataclass
class Clock:
    """How far the listener is, as last reported and carried on from there."""

    played: float = 0.0  # seconds
    at: float = 0.0
    running: bool = False
    taken: float | None = None  # by a listener that keeps what it gets; it cannot play more than that

    def report(self, playout: Playout) -> None:
        """Take a reading. Playing never goes back, so an older reading that comes late changes nothing."""
        if playout.at >= self.at and playout.played >= self.played:
            self.played, self.at, self.running, self.taken = playout.played, playout.at, playout.running, playout.taken

    def reading(self, now: float, delivered: float) -> float:
        """Seconds played by `now`, never more than were `delivered`."""
        there = delivered if self.taken is None else min(delivered, self.taken)
        return min(there, self.played + (max(0.0, now - self.at) if self.running else 0.0))


@dataclass
class Stream:
    """One utterance for one listener."""

    request: Generate
    reply: Callable[[EngineReply], None]
    received: float
    seed: int
    state: State = State.WAITING
    imitation: Any = None  # of the recording that came with the request, made ready
    pieces: deque[Passage] | None = None  # not yet made into prompts; None: not yet split
    preparing: bool = False  # the next piece's prompt is being made
    running: Running | None = None  # a text that is still being written
    passage: Passage = Passage("", "", 0)  # of the prepared piece
    prepared: Prompt | None = None  # the next piece's prompt, waiting to be admitted
    piece: Piece | None = None  # the one that is in the engine, in `slot`
    spoken: list[Turn] = field(default_factory=list)  # the latest pieces, where the model remembers
    slot: int = -1
    evicted: Evicted | None = None  # what its pages held, while it is preempted
    clock: Clock = field(default_factory=Clock)
    frames: int = 0  # over all pieces
    frame_times: deque[float] = field(default_factory=lambda: deque(maxlen=8))
    delivered: float = 0.0  # seconds of sound handed over
    chunks: int = 0
    notice: Queued | None = None  # the last word to one who waits at the door
    noticed: float = 0.0  # when that was
    entered: float | None = None  # when its first piece was admitted
    prompt_ready: float = 0.0
    first_step: float = 0.0
    first_frame: float = 0.0

    @property
    def id(self) -> str:
        """The caller's name for the stream."""
        return self.request.stream

    @property
    def over(self) -> bool:
        """Nothing more will come of it."""
        return self.state in (State.DONE, State.CANCELLED, State.FAILED, State.DISMISSED)

    @property
    def head_start(self) -> float:
        """Seconds by which it goes before others at the door. Who is being listened to already goes before everyone."""
        if self.entered is not None:
            return math.inf
        if self.request.background:
            return -math.inf
        return HEAD_START if self.request.priority else 0.0

    def remember(self, turn: Turn, most: int) -> None:
        """Keep a spoken piece, and of those before it the latest, of `most` frames in all."""
        self.spoken.append(turn)
        while sum(len(turn.frames) for turn in self.spoken) > most:
            del self.spoken[0]

    def slack(self, now: float) -> float | None:
        """Seconds of sound that the listener still has to play; None before it was given any."""
        return None if self.chunks == 0 else self.delivered - self.clock.reading(now, self.delivered)

    def ahead(self, now: float) -> float:
        """Seconds of sound that were handed over and would be lost if the listener broke in."""
        return self.delivered - (self.clock.reading(now, self.delivered) if self.clock.taken is None else self.clock.taken)

    def timing(self, now: float) -> Timing:
        """The stages up to its first chunk, which is made `now`."""
        return Timing(
            accepted=self.request.accepted,
            received=self.received,
            prompt_ready=self.prompt_ready,
            first_step=self.first_step,
            first_frame=self.first_frame,
            first_chunk=now,
        )
