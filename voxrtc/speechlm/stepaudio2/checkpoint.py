"""`stepfun-ai/Step-Audio-2-mini` on disk -> its parts, every tensor accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from voxrtc.speechlm.base import Placement
from voxrtc.speechlm.causal_lm import CausalLM
from voxrtc.speechlm.codecs.dit_files import load_dit_flow
from voxrtc.speechlm.codecs.hift_files import load_hift
from voxrtc.speechlm.codecs.voice_reader import VoiceReader
from voxrtc.speechlm.stepaudio2.detokenizer import StepDetokenizer
from voxrtc.speechlm.stepaudio2.ear import Ear, EarConfig
from voxrtc.speechlm.stepaudio2.text import CODES, Writer
from voxrtc.speechlm.stepaudio2.voice import Voices, own_recordings
from voxrtc.speechlm.weights import WeightsError, read_folder, read_json, read_pickle

HEARING = ("encoder.", "adapter.")  # names of tensors that are the ear's
# What the reference takes where `config.json` is silent (`configuration_step_audio_2.py`), which calls a Qwen2 by another name.
LANGUAGE = {"rms_norm_eps": 1e-6, "rope_theta": 1e6}
EAR = {"n_mels": 128, "n_audio_ctx": 1500, "kernel_size": 3, "adapter_stride": 2}
S3 = "speech_tokenizer_v2_25hz.onnx"


def load_networks(folder: Path, positions: int, at: Placement) -> tuple[CausalLM, Ear, Writer]:
    """The language model, for sequences of `positions`, the ear, and what reads and writes. Raises `WeightsError`.

    The language model's head holds the rows of `Writer.sayable` only.
    """
    language, ear, writer = _read(folder)
    tensors = read_folder(folder, at.dtype)
    heard = {name: tensors.pop(name) for name in list(tensors) if name.startswith(HEARING)}
    network = CausalLM.filled({**language, "model_type": "qwen2"}, tensors, folder, positions).to(at.device)
    if network.decoder.config.dim != ear.out:
        raise WeightsError(f"{folder / 'config.json'}: llm_dim is {ear.out}, and hidden_size {network.decoder.config.dim}.")
    network.head.weight = nn.Parameter(network.head.weight[writer.sayable().to(at.device)], requires_grad=False)
    network.pack()
    return network, Ear.filled(ear, heard, folder, at.device), writer


def _read(folder: Path) -> tuple[dict[str, Any], EarConfig, Writer]:
    """The shapes of language model and ear, and what reads and writes."""
    config = read_json(folder / "config.json")
    try:
        language, ear = LANGUAGE | config["text_config"], EarConfig.parse(EAR | config["audio_encoder_config"])
        return language, ear, Writer.load(folder, language["vocab_size"])
    except KeyError as missing:
        raise WeightsError(f"{folder / 'config.json'} is not Step-Audio 2's: it lacks {missing}.") from missing


def load_sound(folder: Path, first: int, device: torch.device) -> tuple[StepDetokenizer, Voices]:
    """Token2wav, of codes that begin with token `first`, and the voices that it can have. Raises `WeightsError`."""
    detokenizer = _token2wav(folder / "token2wav", first, device)
    reader = VoiceReader(folder / "token2wav", S3, device)
    return detokenizer, Voices(detokenizer, reader, own_recordings(folder, detokenizer.sample_rate))


def load_detokenizer(folder: Path, device: torch.device) -> StepDetokenizer:
    """Token2wav alone. Raises `WeightsError`."""
    return _token2wav(folder / "token2wav", _read(folder)[2].marks.first_code, device)


def _token2wav(place: Path, first: int, device: torch.device) -> StepDetokenizer:
    flow = load_dit_flow(place, device)
    if flow.config.codes != CODES:
        raise WeightsError(f"{place / 'flow.yaml'} has {flow.config.codes} codes; wanted {CODES}.")
    return StepDetokenizer(flow, load_hift(read_pickle(place / "hift.pt"), place / "hift.pt", device), first)
