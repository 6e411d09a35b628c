"""Who is pointed to which model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.test_cards import CARD, SOURCES, write
from voxrtc import hub
from voxrtc.cards import Card, read_card
from voxrtc.settings import ROOT
from voxrtc.suggestion import Suggestion


@pytest.fixture
def card(tmp_path: Path) -> Card:
    write(tmp_path, CARD + SOURCES + "suggested: cpu\n")
    return read_card(tmp_path, "wren")


@pytest.mark.parametrize(("gpu", "reachable", "name"), [(False, True, "wren"), (False, False, ""), (True, True, "")])
def test_it_depends_on_the_machine_and_the_hub(
    card: Card, monkeypatch: pytest.MonkeyPatch, gpu: bool, reachable: bool, name: str
) -> None:
    plain = msgspec.structs.replace(card, suggested="")
    monkeypatch.setattr(hub, "ask_reachable", lambda on_answer: on_answer(reachable))
    suggestion = Suggestion([plain, card], gpu)
    assert suggestion.name() == "", "the hub was not asked yet"
    suggestion.look()
    assert suggestion.name() == name


def test_files_that_are_here_need_no_hub(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "ask_reachable", lambda on_answer: pytest.fail("it was asked"))
    here = Suggestion([msgspec.structs.replace(card, sources=[])], gpu=False)
    here.look()
    assert here.name() == "wren"


def test_pocket_is_what_ships_for_machines_without_a_gpu() -> None:
    assert read_card(ROOT / "models", "pocket").suggested == "cpu"
