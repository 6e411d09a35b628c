"""The benches of turns and echo: what they count, with models and sounds that leave no doubt."""

from __future__ import annotations

import numpy as np
import pytest

from voxrtc.bench.echo import reactions
from voxrtc.bench.room import as_loud, leaked
from voxrtc.bench.turns import PAUSES, Look, Models, Sentence, by_both, by_words, measure, silence
from voxrtc.chat.turns import TurnSettings
from voxrtc.rtc.microphone import BLOCK, RATE
from voxrtc.rtc.sound import Samples

LOUD = 8_000
WHOLE = 2.048  # seconds, whole blocks


class Pretend(Models):
    """Loud is speech, and the sentence is finished when all of it was heard; a look takes 96 ms."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self, pcm: bytes) -> Look:
        self.looks += 1
        finished = np.count_nonzero(np.frombuffer(pcm, np.int16)) >= WHOLE * RATE
        return Look("That is it." if finished else "That is the", 0.99 if finished else 0.01, 0.096)

    def voice(self, sound: Samples) -> list[float]:
        return [float(sound[at] != 0) for at in range(0, len(sound) - BLOCK + 1, BLOCK)]


def said() -> list[Sentence]:
    sound = np.full(round(WHOLE * RATE), LOUD, np.int16)
    return [Sentence("That is the one, and that is it.", sound, [32 * BLOCK])]


def test_silence_alone_cuts_off_where_words_do_not() -> None:
    server = measure(said(), TurnSettings(), Pretend(), by_both)
    semantic = measure(said(), TurnSettings(eagerness="auto"), Pretend(), by_both)
    assert [server.cut_off[pause] for pause in (0.3, 0.7, 0.9)] == [0.0, 1.0, 1.0]
    assert semantic.cut_off == dict.fromkeys(PAUSES, 0.0)
    assert server.ends == [pytest.approx(0.5, abs=0.04)]
    assert semantic.ends[0] < server.ends[0]


def test_words_are_in_hand_when_the_turn_ends() -> None:
    """The look was in time, and nothing is read twice."""
    models = Pretend()
    result = measure(said(), TurnSettings(), models, by_words)
    assert result.words[0] - result.ends[0] == pytest.approx(0.032, abs=0.001)  # told with the next block


def test_reactions_are_to_what_just_began() -> None:
    assert reactions([1.2, 5.0, 5.1], [1.0, 3.0, 4.9]) == pytest.approx([0.2, float("inf"), 0.1])


def test_a_leak_is_late_and_as_loud_as_it_should_be() -> None:
    played = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    echo = leaked(played, -20, 0.15)
    assert np.sqrt((echo[RATE // 2 :] ** 2).mean()) == pytest.approx(0.01, rel=0.2)
    lag = np.argmax(np.correlate(echo, played[: RATE // 2], "valid"))
    assert lag / RATE == pytest.approx(0.15, abs=0.001)
    assert np.sqrt((as_loud(echo, played, -6) ** 2).mean()) == pytest.approx(0.05, rel=0.05)
    assert len(silence(0.5)) == RATE // 2
