"""What oracles import and do not need for what they are asked. torchaudio's build for CUDA cannot even be imported here."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType

import diffusers.models.attention  # noqa: F401  before the stubs, since it looks around for packages, as the next does
from transformers import Qwen2ForCausalLM  # noqa: F401


def folder(package: str) -> Path:
    """Where a package lies, without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec and spec.submodule_search_locations, f"{package} is not installed"
    return Path(spec.submodule_search_locations[0])


def stub(name: str, *path: Path) -> ModuleType:
    """A package that is empty, but for the modules in `path`."""
    sys.modules[name] = module = ModuleType(name)
    module.__path__ = list(map(str, path))
    return module


stub("matcha.utils", folder("matcha") / "utils")
stub("matcha.utils.pylogger").get_pylogger = logging.getLogger  # type: ignore[attr-defined]
for package in ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"):
    stub(package)
own = folder("chatterbox")
for package in ("chatterbox", "chatterbox.models", "chatterbox.models.s3gen"):
    stub(package, own.joinpath(*package.split(".")[1:]))
stub("stepaudio2", folder("stepaudio2"))
stub("whisper")
stub("whisper.tokenizer").Tokenizer = object  # type: ignore[attr-defined]
stub("tiktoken")
stub("inflect")
