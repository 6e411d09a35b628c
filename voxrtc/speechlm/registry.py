"""Families by name: a card says which one runs its weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from voxrtc.cards import Card, CardError, read_card
from voxrtc.messages.model import ModelInfo
from voxrtc.speechlm import voices
from voxrtc.speechlm.base import HOST, ON_HOST, Detokenizer, Placement, SpeechLM


def _cosyvoice2(card: Card, at: Placement) -> SpeechLM:
    from voxrtc.speechlm.cosyvoice2.model import CosyVoice2

    model = CosyVoice2.load(card.folder, at)
    model.default = model.clone(voices.lark(model.detokenizer.sample_rate))
    return model


def _csm(card: Card, at: Placement) -> SpeechLM:
    from voxrtc.speechlm.csm.model import Csm

    return Csm.load(card.folder, card.info.voices, at)


def _lark(card: Card, at: Placement) -> SpeechLM:
    from voxrtc.speechlm.lark.model import Lark

    return Lark.load(card.folder, at)


def _orpheus(card: Card, at: Placement) -> SpeechLM:
    from voxrtc.speechlm.orpheus import Orpheus

    return Orpheus.load(card.folder, card.info.voices, at)


def _pocket(card: Card, at: Placement) -> SpeechLM:
    from voxrtc.speechlm.pocket.model import Pocket

    return Pocket.load(card.folder, at)


def _stepaudio2(card: Card, at: Placement) -> SpeechLM:
    from voxrtc.speechlm.stepaudio2.model import StepAudio2

    model = StepAudio2.load(card.folder, at)
    if model.voices == ("default",):  # its authors' recordings are not there
        model.known_voices.default = model.clone(voices.lark(model.detokenizer.sample_rate))
    return model


def _cosyvoice2_detokenizer(folder: Path, device: torch.device) -> Detokenizer:
    from voxrtc.speechlm.cosyvoice2.model import load_detokenizer

    return load_detokenizer(folder, device)


def _csm_detokenizer(folder: Path, device: torch.device) -> Detokenizer:
    from voxrtc.speechlm.csm.model import CsmDetokenizer

    return CsmDetokenizer.load(folder, device)


def _lark_detokenizer(folder: Path, device: torch.device) -> Detokenizer:
    from voxrtc.speechlm.lark.detokenizer import LarkDetokenizer

    return LarkDetokenizer.load(folder, device)


def _orpheus_detokenizer(folder: Path, device: torch.device) -> Detokenizer:
    from voxrtc.speechlm.orpheus import OrpheusDetokenizer

    return OrpheusDetokenizer.load(folder, device)


def _pocket_detokenizer(folder: Path, device: torch.device) -> Detokenizer:
    from voxrtc.speechlm.pocket.model import load_detokenizer

    return load_detokenizer(folder, device)


def _stepaudio2_detokenizer(folder: Path, device: torch.device) -> Detokenizer:
    from voxrtc.speechlm.stepaudio2.checkpoint import load_detokenizer

    return load_detokenizer(folder, device)


# A family is imported only when it is asked for.
FAMILIES: dict[str, Callable[[Card, Placement], SpeechLM]] = {
    "cosyvoice2": _cosyvoice2,
    "csm": _csm,
    "lark": _lark,
    "orpheus": _orpheus,
    "pocket": _pocket,
    "stepaudio2": _stepaudio2,
}
DETOKENIZERS: dict[str, Callable[[Path, torch.device], Detokenizer]] = {
    "cosyvoice2": _cosyvoice2_detokenizer,
    "csm": _csm_detokenizer,
    "lark": _lark_detokenizer,
    "orpheus": _orpheus_detokenizer,
    "pocket": _pocket_detokenizer,
    "stepaudio2": _stepaudio2_detokenizer,
}


def load(models: Path, name: str, at: Placement = ON_HOST) -> tuple[ModelInfo, SpeechLM]:
    """Load the model `name` of folder `models`. Raises `CardError`, `speechlm.weights.WeightsError`."""
    card = _card(models, name)
    model = FAMILIES[card.info.family](card, at)
    chosen = {key: value for key, value in msgspec.structs.asdict(card.defaults).items() if value is not None}
    model.defaults = msgspec.structs.replace(model.defaults, **chosen)
    can = {"running": model.runs, "clones": model.clones, "instructed": model.instructed}
    return msgspec.structs.replace(card.info, **can), model


def load_detokenizer(models: Path, name: str, device: torch.device = HOST) -> Detokenizer:
    """The detokenizer of that model, and nothing else of it. Raises what `load` does."""
    card = _card(models, name)
    return DETOKENIZERS[card.info.family](card.folder, device)


def _card(models: Path, name: str) -> Card:
    """With all files there."""
    card = read_card(models, name)
    if card.info.family not in FAMILIES:
        raise CardError(f"“{name}” is of family “{card.info.family}”; known families: {', '.join(sorted(FAMILIES))}.")
    card.check_files()
    return card
