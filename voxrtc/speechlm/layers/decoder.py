"""The decoder that every autoregressive family shares: by default RMSNorm, rotary attention and SwiGLU as in Llama
(arXiv 2302.13971); with LayerNorm and an ungated feed-forward for those who stayed with GPT's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voxrtc.speechlm.layers.attention import Attention, RopeScaling, rope_table, rotate

NORMS: dict[str, Callable[..., nn.Module]] = {"rms": nn.RMSNorm, "layer": nn.LayerNorm}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


@dataclass(frozen=True)
class DecoderConfig:
    """Shape of a decoder. `positions` bounds the rotary table, hence the longest sequence."""

    layers: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_dim: int
    positions: int
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False  # Qwen2 has one
    qk_norm: bool = False  # Qwen3: queries and keys are normalised head by head before they are rotated
    norm: str = "rms"  # one of NORMS
    activation: str = "silu"  # one of ACTIVATIONS
    gated: bool = True  # the activation scales a second projection, else it is the hidden layer itself


class DecoderBlock(nn.Module):
    """One layer. Projections of one input are fused, since small models pay per kernel, not per flop."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.kv_heads, self.head_dim = layer, config.heads, config.kv_heads, config.head_dim
        self.gated, self.activation, self.qk_norm = config.gated, ACTIVATIONS[config.activation], config.qk_norm
        self.attention_norm = NORMS[config.norm](config.dim, eps=config.norm_eps)
        self.qkv = nn.Linear(config.dim, (config.heads + 2 * config.kv_heads) * config.head_dim, bias=config.qkv_bias)
        if config.qk_norm:
            self.q_norm = nn.RMSNorm(config.head_dim, eps=config.norm_eps)
            self.k_norm = nn.RMSNorm(config.head_dim, eps=config.norm_eps)
        self.output = nn.Linear(config.heads * config.head_dim, config.dim, bias=False)
        self.ffn_norm = NORMS[config.norm](config.dim, eps=config.norm_eps)
        self.gate_up = nn.Linear(config.dim, (1 + config.gated) * config.ffn_dim, bias=False)
        self.down = nn.Linear(config.ffn_dim, config.dim, bias=False)

    def forward(self, x: Tensor, rope: Tensor, attention: Attention) -> Tensor:
        """`x` [..., dim] and `rope` [..., 2, head_dim / 2], one row a position; any leading shape the attention takes."""
        qkv = self.qkv(self.attention_norm(x)).unflatten(-1, (-1, self.head_dim))
        turned, v = qkv.split([self.heads + self.kv_heads, self.kv_heads], dim=-2)
        if self.qk_norm:
            q, k = turned.split([self.heads, self.kv_heads], dim=-2)
            turned = torch.cat((self.q_norm(q), self.k_norm(k)), dim=-2)
        q, k = rotate(turned, rope).split([self.heads, self.kv_heads], dim=-2)
        seen = attention.attend(self.layer, q, k, v)
        x = x + self.output(seen.flatten(-2))
        hidden = self.gate_up(self.ffn_norm(x))
        if not self.gated:
            return x + self.down(self.activation(hidden))
        gate, up = hidden.chunk(2, dim=-1)
        return x + self.down(self.activation(gate) * up)


class Decoder(nn.Module):
    """A stack of blocks and the final norm."""

    rope: Tensor

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(DecoderBlock(config, i) for i in range(config.layers))
        self.norm = NORMS[config.norm](config.dim, eps=config.norm_eps)
        rope = rope_table(config.positions, config.head_dim, config.rope_theta, config.rope_scaling)
        self.register_buffer("rope", rope, persistent=False)

    def forward(self, x: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Inputs `x` [..., dim] at integer `positions` [...] -> hidden states [..., dim]."""
        rope = self.rope[positions].to(x.dtype)
        for block in self.blocks:
            x = block(x, rope, attention)
        return self.norm(x)


def init_weights(module: nn.Module, layers: int, std: float = 0.02) -> None:
    """GPT-2's initialisation: normal weights, residual branches scaled down by depth."""
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=std)
            if name.endswith(("output.weight", "down.weight")):
                with torch.no_grad():
                    parameter.mul_((2 * layers) ** -0.5)
