"""What a reply's words are told to be spoken beside."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from voxrtc.engine.writing import Writing

SOUND = -1


def follow(*frames: str | int) -> tuple[list[str], list[tuple[float, float, int]]]:
    """A reply in frames that write or sound, four a second: what is told of its words, and when they are spoken."""
    texts = [frame for frame in frames if isinstance(frame, str)]

    def written(seen: Tensor) -> str:
        return "".join(texts[: int((seen != SOUND).sum())])

    writing, told, spoken = Writing(written, 4.0), [], []
    for at, frame in enumerate(frames):
        silent = isinstance(frame, str)
        told.append(writing.add(torch.tensor([0 if silent else SOUND]), silent, at == len(frames) - 1))
        spoken += writing.news()
    spoken.append(writing.rest(sum(frame == SOUND for frame in frames) / 4))
    assert "".join(told) == writing.text == "".join(texts)
    return [each for each in told if each], [(each.begin, each.end, each.characters) for each in spoken]


def test_words_are_told_together_and_spoken_until_the_next() -> None:
    told, spoken = follow("One", " two", SOUND, SOUND, " three", SOUND, SOUND, SOUND)
    assert told == ["One two", " three"]
    assert spoken == [(0.0, 0.5, 7), (0.5, 1.25, 13)]


@pytest.mark.parametrize(
    ("parts", "whole"),
    [(("hel", "lo"), 0), (("Say hel", "lo"), 4), (("Say ", "hello"), 4), (("你好", "世界"), 2), (("ok 你", "好"), 4)],
)
def test_a_word_that_goes_on_is_spoken_where_it_ends(parts: tuple[str, str], whole: int) -> None:
    """But of writing without blanks every sign is a word."""
    _, spoken = follow(parts[0], SOUND, parts[1], SOUND)
    assert [characters for *_, characters in spoken] == [whole, len("".join(parts))]


def test_the_last_words_share_the_sound_before_them() -> None:
    assert follow("One", SOUND, SOUND, " two")[1] == [(0.0, 0.5, 7)]
    assert follow("Not a sound.") == (["Not a sound."], [(0.0, 0.0, 12)])


def test_what_writes_nothing_readable_tells_nothing() -> None:
    assert follow("", SOUND, SOUND) == ([], [(0.0, 0.5, 0)])


def test_frames_are_given_once() -> None:
    writing = Writing(lambda frames: "", 4.0)
    for code in (3, 70_000):
        writing.add(torch.tensor([code, 1]), False, False)
    assert torch.frombuffer(bytearray(writing.frames()), dtype=torch.int32).tolist() == [3, 1, 70_000, 1]
    assert writing.frames() == b""
