"""Model cards: those that ship, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxrtc.cards import CardError, names, read_card
from voxrtc.messages.engine import Sampling
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry

CARD = """
name: wren
title: Wren
description: A small bird.
family: lark
path: wren
languages: [en]
voices: [a, b]
licence: MIT
sample_rate: 24000
frame_rate: 50
"""
SOURCES = """
sources:
  - {repo: birds/wren, revision: v1, files: ["model*.safetensors", config.json], licence: MIT, gated: true}
  - {repo: birds/song, revision: main, files: [song.bin], licence: MIT, into: song}
"""


def write(folder: Path, text: str) -> None:
    (folder / "wren.yaml").write_text(text)


@pytest.mark.parametrize("name", names(ROOT / "models"))
def test_the_cards_that_ship_are_whole(name: str) -> None:
    card = read_card(ROOT / "models", name)
    assert card.info.name == name and card.info.family in registry.FAMILIES
    assert card.info.voices and card.info.languages and card.info.licence and card.info.parameters
    assert all(source.files and source.licence and source.revision for source in card.sources)
    assert card.needs.memory and card.needs.stream and card.needs.compute, "what a machine must have is on the card"
    assert bool(card.sources) == bool(card.download), "what is fetched says how much that is"


def test_files_that_are_not_there_are_told_with_the_way_to_get_them(tmp_path: Path) -> None:
    write(tmp_path, CARD + SOURCES)
    folder = tmp_path / "wren"
    with pytest.raises(CardError) as lacking:
        read_card(tmp_path, "wren").check_files()
    told = str(lacking.value)
    assert "https://huggingface.co/birds/wren" in told and "birds/song" in told
    assert f"hf download birds/song --include song.bin --revision main --local-dir {folder}/song" in told
    folder.mkdir()
    (folder / "config.json").touch()
    (folder / "model-00001-of-00001.safetensors").touch()
    with pytest.raises(CardError) as lacking:
        registry.load(tmp_path, "wren")
    assert "birds/wren" not in str(lacking.value) and "song.bin" in str(lacking.value)
    (folder / "song").mkdir()
    (folder / "song" / "song.bin").touch()
    card = read_card(tmp_path, "wren")
    card.check_files()
    card.unfinished.touch()  # a download was broken off: there may be another model-*.safetensors
    with pytest.raises(CardError, match=f"rm {folder}/.unfinished"):
        card.check_files()


def test_what_a_card_does_not_say_of_its_needs_follows_from_its_size(tmp_path: Path) -> None:
    write(tmp_path, CARD + "parameters: 1000000000\n")
    plain = read_card(tmp_path, "wren").needs
    assert (plain.memory, plain.stream, plain.compute, plain.reads) == (4.0, 0, 100.0, 200.0)
    write(tmp_path, CARD + "needs: {memory: 2, stream: 0.1, compute: 7}\n")
    assert read_card(tmp_path, "wren").needs.reads == 100.0
    write(tmp_path, CARD + "needs: {memory: 2, stream: 0.1, compute: 7, reads: 300}\n")
    assert read_card(tmp_path, "wren").needs.reads == 300.0


def test_a_card_chooses_its_defaults(tmp_path: Path) -> None:
    write(
        tmp_path, CARD.replace("path: wren", f"path: {ROOT / 'models' / 'lark'}") + "defaults: {temperature: 0.5, top_k: 3}\n"
    )
    _, model = registry.load(tmp_path, "wren")
    assert model.defaults == Sampling(temperature=0.5, top_k=3, top_p=1.0, min_p=0.0, repetition_penalty=1.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CARD.replace("title: Wren\n", ""), "title"),
        (CARD.replace("name: wren", "name: robin"), "robin"),
        (CARD + "suggested: always\n", "suggested|always"),
        (CARD.replace("path: wren\n", ""), "path"),
        (CARD + "sources: [{repo: birds/wren}]\n", "revision"),
        (CARD.replace("frame_rate: 50", "frame_rate: often"), "frame_rate"),
        ("- not\n- a card", "wren"),
        ("name: [", "wren"),
    ],
)
def test_an_incomplete_card_says_what_it_lacks(tmp_path: Path, text: str, told: str) -> None:
    write(tmp_path, text)
    with pytest.raises(CardError, match=told):
        read_card(tmp_path, "wren")


def test_unknown_models_and_families_are_told(tmp_path: Path) -> None:
    write(tmp_path, CARD.replace("family: lark", "family: ostrich"))
    with pytest.raises(CardError, match="Known: wren"):
        read_card(tmp_path, "robin")
    with pytest.raises(CardError, match="ostrich"):
        registry.load(tmp_path, "wren")
