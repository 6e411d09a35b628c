"""A small, dense generator for evaluation while training: no engine, no pages, no streaming. And the frame decoder.

The served path is `voxrtc/speechlm/lark`; this one exists so that a checkpoint can be heard without it.
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from hibari import dsp
from safetensors.torch import load_file
from torch import Tensor

from voxrtc.speechlm.lark.network import LarkConfig, LarkNetwork

MAX_FRAMES = 800


class RowCache:
    """Keys and values of B rows, each at positions of its own (`Attention` of voxrtc.speechlm.layers)."""

    def __init__(self, layers: int, rows: int, length: int, heads: int, head_dim: int):
        self.keys, self.values = torch.zeros(2, layers, rows, length, heads, head_dim)
        self.positions = torch.zeros(rows, 0, dtype=torch.long)  # [B, T] of the step that comes

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows, end = torch.arange(len(q))[:, None], int(self.positions.max()) + 1
        self.keys[layer, rows, self.positions], self.values[layer, rows, self.positions] = k, v
        seen = torch.arange(end) <= self.positions[..., None]  # [B, T, end]
        q, k, v = (x.transpose(1, 2) for x in (q, self.keys[layer, :, :end], self.values[layer, :, :end]))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None]).transpose(1, 2)


class Lark:
    """The shipped file, loaded: text ids -> codes -> sound."""

    def __init__(self, path: Path):
        tensors = load_file(path)
        self.part = {
            prefix: {n.removeprefix(f"{prefix}."): w.float() for n, w in tensors.items() if n.startswith(f"{prefix}.")}
            for prefix in ("lm", "codebooks", "decoder")
        }
        self.network = LarkNetwork(LarkConfig())
        self.network.load_state_dict(self.part["lm"])
        self.network.eval()

    @torch.inference_mode()
    def generate(
        self,
        prompts: list[list[int]],
        temperature: dict[int, float] | None = None,
        top_k: int = 20,
        prefix: bool = True,
    ) -> list[Tensor]:
        """Codes [F, 7] of each prompt. `temperature` names the codebooks to sample; all others are greedy."""
        network, config = self.network, self.network.config
        lengths = torch.tensor([len(p) for p in prompts])
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(p) for p in prompts], batch_first=True, padding_value=-1)
        decoder = config.decoder
        longest = ids.shape[1] + MAX_FRAMES
        cache = RowCache(decoder.layers, len(prompts), longest, decoder.heads, decoder.head_dim)
        position = torch.zeros_like(lengths)
        if prefix:
            cache.positions = torch.arange(ids.shape[1]).expand_as(ids)
            network.trunk(network.prompt_inputs(ids.clamp(min=0)), cache.positions, cache)
            position = lengths.clone()
        pointer, elapsed = torch.zeros_like(lengths), torch.zeros_like(lengths)
        previous, codes = network.start_codes().expand(len(prompts), -1), []
        ends = torch.full_like(lengths, MAX_FRAMES)
        while len(codes) < MAX_FRAMES and bool((pointer < lengths).any()):
            windows = network.windows(ids, pointer[:, None])
            x = network.frame_inputs(previous[:, None], windows, elapsed[:, None])
            cache.positions = position[:, None]
            hidden = network.trunk(x, cache.positions, cache)[:, 0]
            previous = self.sample(hidden, previous, elapsed, temperature or {}, top_k)
            codes.append(previous)
            moves = (previous[:, 0] == 1) | (elapsed >= config.max_elapsed)
            pointer, elapsed = pointer + moves, torch.where(moves, 0, elapsed + 1)
            position = position + 1
            ends = torch.where((pointer >= lengths) & (ends == MAX_FRAMES), len(codes), ends)
        stacked = torch.stack(codes, 1)
        return [row[:end] for row, end in zip(stacked, ends.tolist(), strict=True)]

    def sample(self, z: Tensor, previous: Tensor, elapsed: Tensor, temperature: dict[int, float], top_k: int) -> Tensor:
        """One frame [B, 7]; units keep their codes while the phoneme lasts."""
        frame = []
        for book in range(len(self.network.config.codebook_sizes)):
            code = pick(self.network.logits(z, book), temperature.get(book, 0.0), top_k)
            if 1 <= book <= 4:
                code = torch.where(elapsed == 0, code, previous[:, book])
            frame.append(code)
            if book < len(self.network.depth_codes):
                z = self.network.choose(z, book, code)
        return torch.stack(frame, -1)

    @torch.inference_mode()
    def sound(self, codes: Tensor) -> np.ndarray:
        """Codes [F, 7] -> float32 samples at 24 kHz, 600 a frame, by hibari's own DSP."""
        books = self.part["codebooks"]
        text = books["unit_mean"] + sum(books[f"unit.{k}"][codes[:, 1 + k]] for k in range(4))
        pitch, energy = torch.expm1(books["f0"][codes[:, 5]]).flatten(), books["energy"][codes[:, 6]].flatten()
        features = torch.cat([text.repeat_interleave(2, 0).T, torch.log1p(pitch)[None] / 5, energy[None] / 5])
        return dsp.synth(*self.spectra(features), pitch.numpy(), np.random.default_rng(0))

    def spectra(self, features: Tensor) -> list[np.ndarray]:
        """Decoder inputs [130, F] at 80 Hz -> five spectra [601, F]."""
        w = self.part["decoder"]
        x = F.conv1d(features[None], w["conv_in.weight"], w["conv_in.bias"], padding=3)
        for i in range(8):
            block = {n.removeprefix(f"blocks.{i}."): t for n, t in w.items() if n.startswith(f"blocks.{i}.")}
            y = F.conv1d(x, block["dw.weight"], block["dw.bias"], padding=3, groups=len(x[0])).mT
            y = F.layer_norm(y, y.shape[-1:], block["norm.weight"], block["norm.bias"])
            y = F.linear(F.gelu(F.linear(y, block["pw1.weight"], block["pw1.bias"])), block["pw2.weight"], block["pw2.bias"])
            x = x + (block["gamma"] * y).mT
        x = F.layer_norm(x.mT, x.shape[1:2], w["norm.weight"], w["norm.bias"])
        return [s.numpy() for s in F.linear(x, w["head.weight"], w["head.bias"])[0].T.chunk(5)]


def pick(scores: Tensor, temperature: float, top_k: int) -> Tensor:
    """Greedy at temperature 0, else one of the `top_k` best: [B, size] -> [B]."""
    if temperature == 0:
        return scores.argmax(-1)
    best, index = (scores / temperature).topk(min(top_k, scores.shape[-1]))
    return index.gather(-1, torch.multinomial(best.softmax(-1), 1))[:, 0]
