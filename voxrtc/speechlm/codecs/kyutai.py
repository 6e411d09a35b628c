"""Kyutai's names for the tensors of its transformers and of Mimi -> our modules.

What can be computed once is: neighbours paired by rotary attention become halves, a branch's scale goes into its last
projection, convolutions become the matrices of `causal`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from voxrtc.speechlm.codecs.causal import CausalConv, CausalUpsample, ChannelUpsample
from voxrtc.speechlm.codecs.mimi import MimiDecoder, MimiEncoder
from voxrtc.speechlm.codecs.quantizer import SplitQuantizer
from voxrtc.speechlm.codecs.seanet import Residual, SeanetDecoder, SeanetEncoder
from voxrtc.speechlm.layers.attention import halves_from_pairs
from voxrtc.speechlm.layers.decoder import DecoderBlock, DecoderConfig
from voxrtc.speechlm.weights import Checkpoint


@torch.no_grad()
def fill_blocks(blocks: nn.ModuleList, config: DecoderConfig, file: Checkpoint, prefix: str, scaled: bool) -> None:
    """`prefix` leads to the transformer; `scaled`: its residual branches have a scale for each channel."""
    for number, block in enumerate(blocks):
        assert isinstance(block, DecoderBlock)
        layer = f"{prefix}layers.{number}."
        queries, keys = (heads * config.head_dim for heads in (config.heads, config.kv_heads))
        qkv = file.take(f"{layer}self_attn.in_proj.weight", *block.qkv.weight.shape).split([queries, keys, keys])
        block.qkv.weight.copy_(torch.cat([*(halves_from_pairs(x, config.head_dim) for x in qkv[:2]), qkv[2]]))
        file.fill(f"{layer}linear1.weight", block.gate_up.weight)
        for name, linear, scale in (("self_attn.out_proj", block.output, 1), ("linear2", block.down, 2)):
            file.fill(f"{layer}{name}.weight", linear.weight)
            if scaled:
                linear.weight.mul_(file.take(f"{layer}layer_scale_{scale}.scale", config.dim)[:, None])
        for norm, place in ((block.attention_norm, "norm1"), (block.ffn_norm, "norm2")):
            fill_affine(norm, file, f"{layer}{place}")


def fill_affine(module: nn.Module, file: Checkpoint, name: str) -> None:
    """A module with nothing but a weight and maybe a bias, as in the file."""
    for part, parameter in module.named_parameters(recurse=False):
        file.fill(f"{name}.{part}", parameter)


def fill_decoder(decoder: MimiDecoder, file: Checkpoint, prefix: str) -> None:
    """Mimi's decoder from the upsampling on."""
    _fill_channels(decoder.upsample, file, f"{prefix}upsample.convtr.convtr.weight")
    transformer = decoder.transformer
    fill_blocks(transformer.blocks, transformer.config, file, f"{prefix}decoder_transformer.transformer.", scaled=True)
    _fill_seanet_decoder(decoder.seanet, file, f"{prefix}decoder.model.")


def fill_encoder(encoder: MimiEncoder, file: Checkpoint, prefix: str) -> None:
    """Mimi's encoder up to the downsampling."""
    _fill_seanet_encoder(encoder.seanet, file, f"{prefix}encoder.model.")
    transformer = encoder.transformer
    fill_blocks(transformer.blocks, transformer.config, file, f"{prefix}encoder_transformer.transformer.", scaled=True)
    _fill_conv(encoder.downsample, file, f"{prefix}downsample.conv.conv.")


@torch.no_grad()
def fill_quantizer(quantizer: SplitQuantizer, file: Checkpoint, prefix: str) -> None:
    """Mimi's codebooks, of which a file holds sums over what fell to each entry, and how much that was."""
    config = quantizer.config
    enter, leave, entries = [], [], []
    for part, books in (("rvq_first", config.semantic), ("rvq_rest", config.books - config.semantic)):
        enter.append(file.take(f"{prefix}{part}.input_proj.weight", config.dim, config.features, 1)[..., 0])
        leave.append(file.take(f"{prefix}{part}.output_proj.weight", config.features, config.dim, 1)[..., 0])
        entries += [_entries(quantizer, file, f"{prefix}{part}.vq.layers.{book}._codebook.") for book in range(books)]
    quantizer.enter.weight.copy_(torch.cat(enter))
    quantizer.leave.weight.copy_(torch.cat(leave, dim=1))
    quantizer.entries.copy_(torch.stack(entries))


def _entries(quantizer: SplitQuantizer, file: Checkpoint, prefix: str) -> Tensor:
    size, dim = quantizer.config.size, quantizer.config.dim
    file.take(f"{prefix}_initialized", 1)  # of use in training only
    usage = file.take(f"{prefix}cluster_usage", size).clamp(min=1e-5)
    return file.take(f"{prefix}embedding_sum", size, dim) / usage[:, None]


def _fill_seanet_decoder(seanet: SeanetDecoder, file: Checkpoint, prefix: str) -> None:
    """The file numbers all layers in order, activations included."""
    _fill_conv(seanet.first, file, f"{prefix}0.conv.")
    number = 0
    for up, residual in zip(seanet.ups, seanet.residuals, strict=True):
        _fill_upsample(up, file, f"{prefix}{number + 2}.convtr.")
        _fill_residual(residual, file, f"{prefix}{number + 3}.")
        number += 3
    _fill_conv(seanet.last, file, f"{prefix}{number + 2}.conv.")


def _fill_seanet_encoder(seanet: SeanetEncoder, file: Checkpoint, prefix: str) -> None:
    _fill_conv(seanet.first, file, f"{prefix}0.conv.")
    number = 0
    for residual, down in zip(seanet.residuals, seanet.downs, strict=True):
        _fill_residual(residual, file, f"{prefix}{number + 1}.")
        _fill_conv(down, file, f"{prefix}{number + 3}.conv.")
        number += 3
    _fill_conv(seanet.last, file, f"{prefix}{number + 2}.conv.")


def _fill_residual(residual: Residual, file: Checkpoint, prefix: str) -> None:
    """A residual block of either side of SEANet."""
    _fill_conv(residual.narrow, file, f"{prefix}block.1.conv.")
    out, channels = residual.widen.weight.shape
    _put(residual.widen, file.take(f"{prefix}block.3.conv.weight", out, channels, 1)[..., 0])
    file.fill(f"{prefix}block.3.conv.bias", residual.widen.bias)


def _fill_conv(conv: CausalConv, file: Checkpoint, prefix: str) -> None:
    """[out, channels, size] -> [out, size * channels]."""
    kernel = file.take(f"{prefix}weight", len(conv.taps.weight), conv.channels, conv.size)
    _put(conv.taps, kernel.transpose(1, 2).flatten(1))
    if conv.taps.bias is not None:
        file.fill(f"{prefix}bias", conv.taps.bias)


@torch.no_grad()
def _fill_upsample(up: CausalUpsample, file: Checkpoint, prefix: str) -> None:
    """[channels, out, 2 * ratio]: a row's effect on the `ratio` rows at its place, then on those at the next one's."""
    kernel = file.take(f"{prefix}weight", up.channels, up.out, 2 * up.ratio).unflatten(2, (2, up.ratio))
    _put(up.taps, kernel.permute(3, 1, 2, 0).flip(2).flatten(2).flatten(0, 1))  # [ratio * out, (older, newer) * channels]
    up.taps.bias.copy_(file.take(f"{prefix}bias", up.out).repeat(up.ratio))


@torch.no_grad()
def _fill_channels(up: ChannelUpsample, file: Checkpoint, name: str) -> None:
    kernel = file.take(name, up.channels, 1, 2 * up.ratio)
    up.taps.copy_(kernel[:, 0].unflatten(1, (2, up.ratio)).permute(1, 2, 0).flip(0))


@torch.no_grad()
def _put(linear: nn.Linear, weight: Tensor) -> None:
    linear.weight.copy_(weight)
