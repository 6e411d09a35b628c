"""Which model and voice a client gets for what it asks."""

from __future__ import annotations

import msgspec
import pytest

from tests.fake_engine import TONE_MODEL
from voxrtc.chat.choice import Choice, choose
from voxrtc.chat.events import EventError
from voxrtc.messages.model import ModelInfo

ONE = msgspec.structs.replace(TONE_MODEL, name="one", voices=["default", "other"])
TWO = msgspec.structs.replace(TONE_MODEL, name="two", voices=["someone"])
KEPT = Choice("two", "someone")


@pytest.mark.parametrize(
    ("model", "voice", "kept", "chosen"),
    [
        (None, None, None, Choice("one", "default")),
        ("two", None, None, Choice("two", "someone")),
        (None, "other", None, Choice("one", "other")),
        (None, None, KEPT, KEPT),
        ("one", None, KEPT, Choice("one", "default")),
        ("gpt-realtime", "marin", None, Choice("one", "default")),
        ("gpt-realtime", "other", None, Choice("one", "other")),
        ("gpt-realtime", "marin", KEPT, KEPT),
    ],
)
def test_what_is_chosen(model: str | None, voice: str | None, kept: Choice | None, chosen: Choice) -> None:
    assert choose([ONE, TWO], model, voice, kept) == chosen


MINE, GONE = f"voice_{'0' * 32}", f"voice_{'1' * 32}"
MIMIC = msgspec.structs.replace(TONE_MODEL, name="mimic", clones=True)


@pytest.mark.parametrize(
    ("model", "voice", "kept", "chosen"),
    [
        ("mimic", MINE, None, Choice("mimic", MINE)),
        ("mimic", None, Choice("mimic", MINE), Choice("mimic", MINE)),
        (None, "default", Choice("mimic", MINE), Choice("mimic", "default")),
        ("mimic", None, Choice("mimic", GONE), Choice("mimic", "default")),
        ("one", None, Choice("mimic", MINE), Choice("one", "default")),
        ("gpt-realtime", MINE, Choice("mimic", "default"), Choice("mimic", MINE)),
    ],
)
def test_a_recordings_voice_is_chosen(model: str | None, voice: str | None, kept: Choice | None, chosen: Choice) -> None:
    assert choose([ONE, MIMIC], model, voice, kept, {MINE}) == chosen


@pytest.mark.parametrize(
    ("models", "model", "voice", "code", "told"),
    [
        ([ONE, MIMIC], "one", MINE, "voice_not_supported", "choose a model that can: mimic"),
        ([ONE, TWO], "two", MINE, "voice_not_supported", "load a model that can"),
        ([ONE, MIMIC], "mimic", GONE, "voice_gone", "give it again"),
        ([ONE, MIMIC], "mimic", MINE.upper(), "voice_not_found", "Voices: default"),
    ],
)
def test_a_recording_that_cannot_be_spoken_with_is_told(
    models: list[ModelInfo], model: str, voice: str, code: str, told: str
) -> None:
    with pytest.raises(EventError, match=told) as error:
        choose(models, model, voice, None, {MINE})
    assert error.value.code == code


def test_a_model_of_ours_may_have_a_name_of_theirs() -> None:
    theirs = msgspec.structs.replace(TONE_MODEL, name="gpt-tone", voices=["a"])
    assert choose([ONE, theirs], "gpt-tone", None) == Choice("gpt-tone", "a")


@pytest.mark.parametrize(
    ("model", "voice", "code", "names"),
    [("three", None, "model_not_found", "one, two"), ("two", "marin", "voice_not_found", "someone")],
)
def test_what_there_is_not_is_told(model: str, voice: str | None, code: str, names: str) -> None:
    with pytest.raises(EventError, match=names) as error:
        choose([ONE, TWO], model, voice)
    assert error.value.code == code
