"""HiFT as CosyVoice 2 publishes it (`hift.pt`), or those who took it over -> `HiftVocoder`. Its tensors tell its shape."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from voxrtc.speechlm.codecs.hift import DILATIONS, KERNELS, RATES, HiftConfig
from voxrtc.speechlm.codecs.hift_source import LAYERS
from voxrtc.speechlm.codecs.hift_stream import HiftVocoder
from voxrtc.speechlm.weights import WeightsError, fold_weight_norm, load_module

TRAINED = "generator."  # what a file that came straight from training calls it


def load_hift(tensors: dict[str, Tensor], source: Path, device: torch.device) -> HiftVocoder:
    """Ready to serve. `source` is what errors name. Raises `WeightsError`."""
    tensors = fold_weight_norm({name.removeprefix(TRAINED): tensor for name, tensor in tensors.items()})
    try:
        config, pitch_dim, harmonics = _shape(tensors)
    except KeyError as missing:
        raise WeightsError(f"{source} is not HiFT: it lacks {missing}.") from missing
    found = tuple(tensors[f"ups.{i}.weight"].shape[2] for i in range(len(RATES)) if f"ups.{i}.weight" in tensors)
    if found != KERNELS:
        raise WeightsError(f"{source} upsamples with kernels {found}; the HiFT for 24 kHz has {KERNELS}.")
    with torch.device("meta"):
        vocoder = HiftVocoder(config, pitch_dim, harmonics)
    load_module(vocoder, tensors, source, _table(config))
    return vocoder.requires_grad_(False).to(device)


def _shape(tensors: dict[str, Tensor]) -> tuple[HiftConfig, int, int]:
    """Also the width of the pitch predictor, and the number of harmonics. Raises `KeyError`."""
    dim, mel, _ = tensors["conv_pre.weight"].shape
    blocks = sum(name.startswith("resblocks.") and name.endswith("convs1.0.weight") for name in tensors)
    config = HiftConfig(
        mel=mel,
        dim=dim,
        kernels=tuple(tensors[f"resblocks.{j}.convs1.0.weight"].shape[2] for j in range(blocks // len(RATES))),
        source_kernels=tuple(tensors[f"source_resblocks.{i}.convs1.0.weight"].shape[2] for i in range(len(RATES))),
    )
    return config, len(tensors["f0_predictor.condnet.0.weight"]), tensors["m_source.l_linear.weight"].shape[1]


def _affine(ours: str, theirs: str) -> dict[str, tuple[str, ...]]:
    return {f"{ours}.{kind}": (f"{theirs}.{kind}",) for kind in ("weight", "bias")}


def _table(config: HiftConfig) -> dict[str, tuple[str, ...]]:
    """Names in a `HiftVocoder` -> names on disk, for `weights.load_module`."""
    table = _affine("generator.enter", "conv_pre") | _affine("generator.leave", "conv_post")
    table |= _affine("excitation.mix", "m_source.l_linear") | _affine("pitch.leave", "f0_predictor.classifier")
    for i in range(LAYERS):
        table |= _affine(f"pitch.layers.{i}", f"f0_predictor.condnet.{2 * i}")
    for i in range(len(RATES)):
        rate = f"generator.rates.{i}."
        table |= _affine(f"{rate}up", f"ups.{i}") | _affine(f"{rate}source", f"source_downs.{i}")
        table |= _block(f"{rate}source_block.", f"source_resblocks.{i}.")
        for j in range(len(config.kernels)):
            table |= _block(f"{rate}blocks.{j}.", f"resblocks.{len(config.kernels) * i + j}.")
    return table


def _block(ours: str, theirs: str) -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for k in range(len(DILATIONS)):
        table |= _affine(f"{ours}wide.{k}", f"{theirs}convs1.{k}") | _affine(f"{ours}narrow.{k}", f"{theirs}convs2.{k}")
        table[f"{ours}before.{k}.alpha"] = (f"{theirs}activations1.{k}.alpha",)
        table[f"{ours}between.{k}.alpha"] = (f"{theirs}activations2.{k}.alpha",)
    return table
