"""A Pocket-TTS checkpoint on disk -> our modules: `model.safetensors` as `pocket-tts` 4.0.1 writes it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from voxrtc.speechlm.codecs.kyutai import fill_affine, fill_blocks, fill_decoder, fill_encoder
from voxrtc.speechlm.pocket.detokenizer import PocketDetokenizer
from voxrtc.speechlm.pocket.network import FlowHead, PocketNetwork, Times
from voxrtc.speechlm.pocket.voice import VoiceEncoder
from voxrtc.speechlm.weights import Checkpoint


def fill(path: Path, network: PocketNetwork, detokenizer: PocketDetokenizer, voices: VoiceEncoder) -> None:
    """Fill all three from the file. A missing, surplus or misshaped tensor is named. Raises `WeightsError`."""
    file = Checkpoint(path)
    _fill_network(network, file, "flow_lm.")
    _fill_head(network.head, file, "flow_lm.flow_net.", timed=network.config.head.kind == "lsd")
    _fill_detokenizer(detokenizer, file)
    _fill_voices(voices, file)
    file.finish()


def fill_detokenizer(path: Path, detokenizer: PocketDetokenizer) -> None:
    """Fill it alone, of the same file. Raises `WeightsError`."""
    file = Checkpoint(path)
    _fill_detokenizer(detokenizer, file)
    file.check()


@torch.no_grad()
def _fill_network(network: PocketNetwork, file: Checkpoint, prefix: str) -> None:
    config, decoder = network.config, network.decoder
    fill_blocks(decoder.blocks, decoder.config, file, f"{prefix}transformer.", scaled=False)
    fill_affine(decoder.norm, file, f"{prefix}out_norm")
    fill_affine(network.latent, file, f"{prefix}input_linear")
    fill_affine(network.narrow, file, f"{prefix}z_proj")
    fill_affine(network.eos, file, f"{prefix}out_eos")
    file.fill(f"{prefix}bos_emb", network.begin)
    rows, dim = network.text.weight.shape
    table = file.take(f"{prefix}conditioner.embed.weight", rows, config.rank or dim)
    if config.rank:
        table = table @ file.take(f"{prefix}conditioner.proj.weight", dim, config.rank).T
    network.text.weight.copy_(table)


@torch.no_grad()
def _fill_head(head: FlowHead, file: Checkpoint, prefix: str, timed: bool) -> None:
    fill_affine(head.condition, file, f"{prefix}cond_embed")
    fill_affine(head.enter, file, f"{prefix}input_proj")
    fill_affine(head.leave, file, f"{prefix}final_layer.linear")
    if timed:
        times = [_times(file, f"{prefix}time_embed.{i}.", len(head.condition.bias)) for i in (0, 1)]
        head.condition.bias += (times[0](0.0) + times[1](1.0)) / 2
    names = []
    for i, (norm, up, down) in enumerate(zip(head.norms, head.ups, head.downs, strict=True)):
        block = f"{prefix}res_blocks.{i}."
        fill_affine(norm, file, f"{block}in_ln")
        fill_affine(up, file, f"{block}mlp.0")
        fill_affine(down, file, f"{block}mlp.2")
        names.append(f"{block}adaLN_modulation.1")
    _fill_rows(head.steer, file, [(name, 3) for name in names] + [(f"{prefix}final_layer.adaLN_modulation.1", 2)])


def _fill_rows(linear: nn.Linear, file: Checkpoint, parts: list[tuple[str, int]]) -> None:
    """Several layers of one input as one; `parts` are names and how many times the input's width each gives."""
    width = linear.in_features
    linear.weight.copy_(torch.cat([file.take(f"{name}.weight", times * width, width) for name, times in parts]))
    linear.bias.copy_(torch.cat([file.take(f"{name}.bias", times * width) for name, times in parts]))


def _times(file: Checkpoint, prefix: str, dim: int) -> Times:
    times = Times(dim)
    fill_affine(times.first, file, f"{prefix}mlp.0")
    fill_affine(times.second, file, f"{prefix}mlp.2")
    file.fill(f"{prefix}mlp.3.alpha", times.scale)
    file.fill(f"{prefix}freqs", times.frequencies)
    return times


@torch.no_grad()
def _fill_detokenizer(detokenizer: PocketDetokenizer, file: Checkpoint) -> None:
    """Latents are normalised in the language model; undoing that is part of the codec's first projection here."""
    dim, latent = detokenizer.enter.weight.shape
    std, mean = file.take("flow_lm.emb_std", latent), file.take("flow_lm.emb_mean", latent)
    projection: Tensor = file.take("mimi.quantizer.output_proj.weight", dim, latent, 1)[..., 0]
    detokenizer.enter.weight.copy_(projection * std)
    detokenizer.enter.bias.copy_(projection @ mean)
    fill_decoder(detokenizer.mimi, file, "mimi.")


@torch.no_grad()
def _fill_voices(voices: VoiceEncoder, file: Checkpoint) -> None:
    file.fill("flow_lm.speaker_proj_weight", voices.project.weight)
    if voices.begin is not None:
        voices.begin.copy_(file.take("flow_lm.bos_before_voice", 1, 1, len(voices.begin))[0, 0])
    fill_encoder(voices.mimi, file, "mimi.")
