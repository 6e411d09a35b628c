"""The words of a reply that a model writes while it speaks, and when each is spoken: beside which sound it was written."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import Tensor

from voxrtc.messages.engine import Spoken

# What may go on in the next words written: letters but of scripts that put no blanks between words
_OPEN = re.compile(r"[^\s\u2e80-\uffff]+$")
_GOES_ON = re.compile(r"[^\s\u2e80-\uffff]")


class Writing:
    """Follows a reply frame by frame. Has `Words`' face to a listener: `news`, and at the end `rest`."""

    def __init__(self, written: Callable[[Tensor], str], frame_rate: float) -> None:
        """`written` is `SpeechLM.written`."""
        self.text = ""  # told
        self._written, self._frame_rate = written, frame_rate
        self._frames: list[Tensor] = []
        self._given = 0  # of these, those that the listener has
        self._sounding = 0  # and those that make sound
        self._open = False  # some write what is not told yet
        self._since = 0.0  # seconds of sound before the words told last
        self._news: list[Spoken] = []

    def add(self, frame: Tensor, silent: bool, last: bool) -> str:
        """Take a frame [width]. Words are told when those that were written together are complete: returns them."""
        self._frames.append(frame)
        self._open = self._open or silent
        told = self._read(mute=silent) if self._open and (last or not silent) else ""
        self._sounding += not silent
        return told

    def news(self) -> list[Spoken]:
        """Words that are known to be spoken and were not told."""
        news, self._news = self._news, []
        return news

    def rest(self, delivered: float) -> Spoken:
        """The others, now that the sound ends, `delivered` seconds long."""
        return Spoken(begin=min(self._since, delivered), end=delivered, characters=len(self.text))

    def frames(self) -> bytes:
        """The frames that the listener has not been given, as `Replied` takes them."""
        new, self._given = self._frames[self._given :], len(self._frames)
        return torch.stack(new).to(torch.int32).numpy().astype("<i4").tobytes() if new else b""

    def _read(self, mute: bool) -> str:
        """What the latest words written add to the text. Those before them are spoken until here, unless the reply ends with
        these, which then have no sound of their own and share theirs."""
        self._open = False
        new = self._written(torch.stack(self._frames))[len(self.text) :]
        if not new:
            return ""
        if self.text and not mute:
            begin, self._since = self._since, self._sounding / self._frame_rate
            whole = _OPEN.sub("", self.text) if _GOES_ON.match(new) else self.text
            self._news.append(Spoken(begin=begin, end=self._since, characters=len(whole)))
        self.text += new
        return new
