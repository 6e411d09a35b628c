"""A conversation that goes on and on holds no more than what it remembers."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest

from tests.chat.stage import Stage
from tests.chat.test_listening import said
from voxrtc.chat import conversation
from voxrtc.chat.reply import Ask

TURNS = 30


class Talkative:
    """A `Replier` that has two sentences for everybody."""

    async def reply(self, ask: Ask) -> AsyncGenerator[str, None]:
        for word in ("Of course. ", "I like ", "that, too. "):
            yield word


def kinds() -> Counter[str]:
    gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


async def turn(stage: Stage) -> None:
    """A person says something, and is answered to the end."""
    said(stage)
    await stage.event("output_audio_buffer.stopped")
    stage.events.clear()
    tone, hearing = stage.tone, stage.hearing
    for kept in (tone.requests, tone.tasks, tone.texts, hearing.readers, hearing.sound, hearing.looks):
        kept.clear()
    hearing.finished.clear()
    hearing.forgotten.clear()


async def test_turn_after_turn_nothing_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "ITEMS", 8)
    async with Stage(replier=Talkative()) as stage:
        counts = []
        for _ in range(3):
            for _ in range(TURNS):
                await turn(stage)
            counts.append(kinds())
    # What grows once is a cache
    grown = [{kind for kind in after if after[kind] - before[kind] >= TURNS} for before, after in pairwise(counts)]
    assert not set.intersection(*grown)
