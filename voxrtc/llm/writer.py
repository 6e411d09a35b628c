"""What a chat model writes, for several people at a time: who is next, with how many tokens, and where each one ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from voxrtc.llm.examples import EXAMPLES
from voxrtc.llm.model import Part
from voxrtc.llm.prompt import Prompter
from voxrtc.llm.slots import Place, Slots
from voxrtc.messages.completion import ChatMessage

AT_ONCE = 8  # completions in a step
WAITING = 32  # more are refused
ROWS = 128  # tokens of prompts in a step, so that those who write already do not stall
LONGEST = 120  # tokens of a completion
SENTENCES = 2  # of it: a small model does not know when to stop
AHEAD = 40  # characters, about a clause: then the voice has something to say, and more than enough comes in time
REMEMBERED = 192  # tokens that it had better not repeat

SENTENCE = re.compile(r"[.!?…]+[\"'”’)]*\s")

Key = tuple[bytes, str]  # client and completion


class Full(Exception):
    """`WAITING` completions wait already."""


class Model(Protocol):
    """What a writer needs of `model.ChatModel`."""

    tokenizer: Tokenizer

    def make_room(self, slot: int, positions: int) -> bool: ...

    def free(self, slot: int) -> None: ...

    def begin(self, slot: int, seed: int) -> None: ...

    def copy(self, donor: int, slot: int, positions: int) -> None: ...

    def step(self, parts: Sequence[Part]) -> list[int | None]: ...


@dataclass(eq=False)
class Writing:
    """A completion under way, or waiting for its turn."""

    key: Key
    prompt: list[int]
    opening: int
    most: int  # tokens
    place: Place | None = None
    made: list[int] = field(default_factory=list)
    text: str = ""
    stream: DecodeStream = field(default_factory=lambda: DecodeStream(skip_special_tokens=True))

    @property
    def ids(self) -> list[int]:
        return self.prompt + self.made


@dataclass(frozen=True)
class News:
    """A completion's next words, and whether they are the last."""

    key: Key
    text: str
    last: bool
    cut: bool = False


class Writer:
    """All completions. Not for several threads: what comes in is told between steps."""

    def __init__(self, model: Model, slots: int) -> None:
        self._model, self._slots = model, Slots(slots)
        self._prompter = Prompter(model.tokenizer)
        self._active: list[Writing] = []
        self._waiting: list[Writing] = []
        self._seed = 0

    @property
    def busy(self) -> bool:
        """Whether a step would do something."""
        return bool(self._active or self._waiting)

    @property
    def urgent(self) -> bool:
        """Whether somebody has not got a clause yet."""
        return bool(self._waiting) or any(len(writing.text) < AHEAD for writing in self._active)

    def begin(self, key: Key, messages: Sequence[ChatMessage], max_tokens: int | None = None) -> None:
        """A new completion. Raises `Full` and `prompt.TooLong`."""
        if len(self._waiting) >= WAITING:
            raise Full
        prompt = self._prompter.prompt(messages, EXAMPLES)
        self._waiting.append(Writing(key, prompt.ids, prompt.opening, max_tokens or LONGEST))

    def abandon(self, key: Key) -> None:
        """Stop one, if there is such."""
        for writing in self._active + self._waiting:
            if writing.key == key:
                self._leave(writing)

    def forget(self) -> list[Key]:
        """A step has failed: who was in it is given up, or who was to enter it, and nothing is kept. Their names."""
        gone = list(self._active) or self._waiting[:1]
        for each in gone:
            self._leave(each)
            if each.place:
                each.place.slot.ids = []
                self._model.free(each.place.slot.index)
        return [each.key for each in gone]

    def step(self) -> list[News]:
        """Compute once; what it brought."""
        self._admit()
        parts = self._parts()
        chosen = self._model.step([part for _, part in parts])
        news = []
        for (writing, part), id in zip(parts, chosen, strict=True):
            assert writing.place
            slot = writing.place.slot
            slot.ids = slot.ids[: part.start] + list(part.ids)
            if id is not None:
                news += self._add(writing, id)
        return news

    def _admit(self) -> None:
        """Give slots and pages to those who wait, the first first, as long as there are any."""
        while self._waiting and len(self._active) < AT_ONCE:
            writing = self._waiting[0]
            place = self._slots.find(writing.prompt, writing.opening)
            if place is None or not self._has_room(place, len(writing.prompt) + LONGEST):
                return
            self._slots.take(place)
            writing.place = place
            place.slot.ids = place.slot.ids[: place.kept]
            if place.donor:
                self._model.copy(place.donor.index, place.slot.index, place.kept)
                place.slot.ids = writing.prompt[: place.kept]
            self._model.begin(place.slot.index, self._seed)
            self._seed += 1
            self._active.append(self._waiting.pop(0))

    def _has_room(self, place: Place, positions: int) -> bool:
        """Pages for a slot, which other idle slots give up if need be."""
        if place.donor or not place.kept:
            place.slot.ids = []
            self._model.free(place.slot.index)
        idle = [slot for slot in self._slots.idle() if slot not in (place.slot, place.donor)]
        while not self._model.make_room(place.slot.index, positions):
            if not idle:
                return False
            slot = idle.pop(0)
            slot.ids = []
            self._model.free(slot.index)
        return True

    def _parts(self) -> list[tuple[Writing, Part]]:
        """The next token of those who write; as much as there is room for of the prompts of others, the first first."""
        parts, room = [], ROWS
        for writing in self._active:
            assert writing.place
            ids, done = writing.ids, len(writing.place.slot.ids)
            count = min(len(ids) - done, room if not writing.made else 1)
            if count:
                last = done + count == len(ids)
                part = Part(
                    writing.place.slot.index, done, ids[done : done + count], last, writing.ids[writing.opening :][-REMEMBERED:]
                )
                parts.append((writing, part))
                room -= 0 if writing.made else count
        return parts

    def _add(self, writing: Writing, id: int) -> list[News]:
        """A token more of it; what that tells."""
        over = id == self._prompter.end
        text = "" if over else writing.stream.step(self._model.tokenizer, id) or ""
        writing.made.append(id)
        ends = [match.end() for match in SENTENCE.finditer(writing.text + text)]
        if len(ends) >= SENTENCES:  # it shows by what follows, which is of the next one
            text, over = text[: ends[SENTENCES - 1] - len(writing.text)].rstrip(), True
        writing.text += text
        over = over or len(writing.made) >= LONGEST
        cut = not over and len(writing.made) >= writing.most
        if over or cut:
            self._leave(writing)
        return [News(writing.key, text, over or cut, cut)] if text or over or cut else []

    def _leave(self, writing: Writing) -> None:
        """It is over. Its slot keeps what was computed."""
        (self._waiting if writing in self._waiting else self._active).remove(writing)
        if writing.place:
            writing.place.slot.busy = False
