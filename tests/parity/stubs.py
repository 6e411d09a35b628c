"""What oracles import and do not need for what they are asked. torchaudio's build for CUDA cannot even be imported here."""

from __future__ import annotations

import logging
import sys
import types

import diffusers.models.attention  # noqa: F401  before the stubs, since it looks around for packages, as the next does
from transformers import Qwen2ForCausalLM  # noqa: F401

for name in ("matcha.utils", "matcha.utils.pylogger", "torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = []
sys.modules["matcha.utils.pylogger"].get_pylogger = logging.getLogger  # type: ignore[attr-defined]
