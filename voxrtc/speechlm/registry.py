"""Families by name: a card says which one runs its weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from voxrtc.cards import Card, CardError, read_card
from voxrtc.messages.engine import ModelInfo
from voxrtc.speechlm import voices
from voxrtc.speechlm.base import HOST, SpeechLM


def _cosyvoice2(card: Card, device: torch.device, dtype: torch.dtype) -> SpeechLM:
    from voxrtc.speechlm.cosyvoice2.model import CosyVoice2

    model = CosyVoice2.load(card.folder, device, dtype)
    model.default = model.clone(voices.lark(model.detokenizer.sample_rate))
    return model


def _csm(card: Card, device: torch.device, dtype: torch.dtype) -> SpeechLM:
    from voxrtc.speechlm.csm.model import Csm

    return Csm.load(card.folder, card.info.voices, device, dtype)


def _lark(card: Card, device: torch.device, dtype: torch.dtype) -> SpeechLM:
    from voxrtc.speechlm.lark.model import Lark

    return Lark.load(card.folder, device, dtype)


def _orpheus(card: Card, device: torch.device, dtype: torch.dtype) -> SpeechLM:
    from voxrtc.speechlm.orpheus import Orpheus

    return Orpheus.load(card.folder, card.info.voices, device, dtype)


def _pocket(card: Card, device: torch.device, dtype: torch.dtype) -> SpeechLM:
    from voxrtc.speechlm.pocket.model import Pocket

    return Pocket.load(card.folder, device)


def _stepaudio2(card: Card, device: torch.device, dtype: torch.dtype) -> SpeechLM:
    from voxrtc.speechlm.stepaudio2.model import StepAudio2

    model = StepAudio2.load(card.folder, device, dtype)
    if model.voices == ("default",):  # its authors' recordings are not there
        model.known_voices.default = model.clone(voices.lark(model.detokenizer.sample_rate))
    return model


# A family is imported only when it is asked for.
Load = Callable[[Card, torch.device, torch.dtype], SpeechLM]
FAMILIES: dict[str, Load] = {
    "cosyvoice2": _cosyvoice2,
    "csm": _csm,
    "lark": _lark,
    "orpheus": _orpheus,
    "pocket": _pocket,
    "stepaudio2": _stepaudio2,
}


def load(
    models: Path, name: str, device: torch.device = HOST, dtype: torch.dtype = torch.float32
) -> tuple[ModelInfo, SpeechLM]:
    """Load the model `name` of folder `models`. Raises `CardError`, `speechlm.weights.WeightsError`.

    `dtype` is that of the backbone; a family may stay in float32 where its numbers ask for it.
    """
    card = read_card(models, name)
    if card.info.family not in FAMILIES:
        raise CardError(f"“{name}” is of family “{card.info.family}”; known families: {', '.join(sorted(FAMILIES))}.")
    card.check_files()
    model = FAMILIES[card.info.family](card, device, dtype)
    chosen = {key: value for key, value in msgspec.structs.asdict(card.defaults).items() if value is not None}
    model.defaults = msgspec.structs.replace(model.defaults, **chosen)
    can = {"running": model.runs, "clones": model.clones, "instructed": model.instructed}
    return msgspec.structs.replace(card.info, **can), model
