"""SNAC's decoder at 24 kHz (arXiv 2410.14411): seven codes a frame -> 2048 samples, streamed exactly, many streams at once.

Every layer sees a bounded stretch of its input and remembers it (`streams`), so no window is decoded twice and nothing is
crossfaded. Noise is part of the model: see `Snac.noise`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from voxrtc.speechlm.base import Detokenizer, Voice
from voxrtc.speechlm.codecs.lanes import InLanes, Lanes, LaneState, Shape
from voxrtc.speechlm.codecs.streams import Call, LaneCall, StreamState
from voxrtc.speechlm.detokenizer import Repeat
from voxrtc.speechlm.weights import WeightsError, fold_weight_norm, load_module, read_folder, read_json

BOOKS = ((0,), (1, 4), (2, 3, 5, 6))  # of a frame's seven codes, those of each codebook, in order of time
LATENTS = 4  # in a frame: the finest codebook has one code each, the coarsest one for all of them
KERNEL, DILATIONS = 7, (1, 3, 9)
PAD = KERNEL // 2
AT_ONCE = 32  # frames: bounds memory, and tensors above 32 MB, which the C library returns each time, cost twice the time
NOISE = 524_287  # prime; 22 s of the fastest noise, far longer than a repetition that can be heard


@dataclass(frozen=True)
class SnacConfig:
    """Shape of the decoder, with `latent_dim` channels in and `dim` after the first layers, halved by every block."""

    latent_dim: int
    dim: int
    rates: tuple[int, ...]
    codes: int
    code_dim: int

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> SnacConfig:
        """From a checkpoint's `config.json`. Raises `WeightsError` for a SNAC of another make."""
        made = dict(sampling_rate=24_000, vq_strides=[4, 2, 1], attn_window_size=None, noise=True, depthwise=True)
        wrong = [f"{name} is {values.get(name)}, not {value}" for name, value in made.items() if values.get(name) != value]
        if wrong:
            raise WeightsError(f"This SNAC is not the one for 24 kHz: {'; '.join(wrong)}.")
        try:
            latent_dim = values.get("latent_dim") or values["encoder_dim"] * 2 ** len(values["encoder_rates"])
            rates = tuple(values["decoder_rates"])
            return cls(latent_dim, values["decoder_dim"], rates, values["codebook_size"], values["codebook_dim"])
        except KeyError as missing:
            raise WeightsError(f"SNAC's config.json says nothing of {missing}.") from missing


class Snake(nn.Module):
    """x + sin(a x)^2 / a, with a learned for each channel (arXiv 2006.08195)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """[channels, time], both ways. Zeros stay zeros, so padding may come before it."""
        wave = torch.sin(self.alpha[0] * x)
        return torch.addcmul(x, wave / (self.alpha[0] + 1e-9), wave)


class Unit(nn.Module):
    """A dilated convolution channel by channel, then a mix of the channels, added to what came in."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.pad = PAD * dilation
        self.snake_in, self.snake_out = Snake(channels), Snake(channels)
        self.conv = nn.Conv1d(channels, channels, KERNEL, dilation=dilation, groups=channels)
        self.mix = nn.Conv1d(channels, channels, 1)

    def new_kept(self) -> Tensor:
        """The memory of a fresh stream: the zeros before it."""
        return self.conv.weight.new_zeros(self.conv.in_channels, self.pad)

    def forward(self, x: Tensor, call: Call | LaneCall) -> Tensor:
        """[channels, time], both ways."""
        x = call.extend(x, 2 * self.pad, self.pad)
        update = call.inside(_slide(self.conv, self.snake_in(x)))
        return call.inside(x[:, self.pad :]) + _mix(self.mix, self.snake_out(update))


class Block(nn.Module):
    """Upsampling by `rate`, noise as loud as a learned mix of the signal says, and three `Unit`s."""

    matrix: Tensor

    def __init__(self, channels: int, rate: int) -> None:
        super().__init__()
        self.rate = rate
        self.snake = Snake(channels)
        self.up = nn.ConvTranspose1d(channels, channels // 2, 2 * rate, rate)
        self.noise = nn.Conv1d(channels // 2, channels // 2, 1, bias=False)
        self.units = nn.ModuleList(Unit(channels // 2, dilation) for dilation in DILATIONS)

    def prepare(self) -> None:
        """Lay the upsampling out for a matrix product, `rate` columns from two neighbours: torch's own is ten times slower."""
        now, before = self.up.weight.data.chunk(2, dim=2)
        self.register_buffer("matrix", torch.cat((before, now)).flatten(1).T.contiguous(), persistent=False)
        del self.up.weight

    def new_kept(self) -> list[Tensor]:
        """The memory of a fresh stream: the zeros before it."""
        return [self.matrix.new_zeros(self.up.in_channels, 1), *(unit.new_kept() for unit in self.units)]

    def forward(self, x: Tensor, call: Call | LaneCall, noise: Callable[[Tensor], Tensor]) -> Tensor:
        """[channels, time] -> [channels / 2, about rate * time], with the `noise` of its columns."""
        x = call.extend(self.snake(x), 1, 1)
        x = self.matrix @ call.inside(torch.cat((x[:, :-1], x[:, 1:])))
        x = x.unflatten(0, (-1, self.rate)).transpose(1, 2).flatten(1) + self.up.bias[:, None]
        call.upsample(self.rate)
        x, columns = call.trim(x, self.rate // 2)
        x = x + noise(columns) * (self.noise.weight[:, :, 0] @ x)
        for unit in self.units:
            x = unit(x, call)
        return x


class Book(nn.Module):
    """A codebook of few dimensions and its way up to the latent's."""

    def __init__(self, config: SnacConfig) -> None:
        super().__init__()
        self.codebook = nn.Embedding(config.codes, config.code_dim)
        self.out_proj = nn.Conv1d(config.code_dim, config.latent_dim, 1)

    def forward(self, codes: Tensor) -> Tensor:
        """[n] -> [latent_dim, n]."""
        return _mix(self.out_proj, self.codebook(codes).T)


class Snac(nn.Module, Detokenizer):
    """The decoding half of a SNAC checkpoint. A frame is seven codes in order of time, coarse before fine (`BOOKS`)."""

    sample_rate = 24_000
    min_chunk = 1
    table: Tensor

    def __init__(self, config: SnacConfig) -> None:
        """With random weights; `ready` ends the filling in of others."""
        super().__init__()
        self.books = nn.ModuleList(Book(config) for _ in BOOKS)
        self.spread = nn.Conv1d(config.latent_dim, config.latent_dim, KERNEL, groups=config.latent_dim)
        self.enter = nn.Conv1d(config.latent_dim, config.dim, 1)
        self.blocks = nn.ModuleList(Block(config.dim >> i, rate) for i, rate in enumerate(config.rates))
        last = config.dim >> len(config.rates)
        self.snake, self.leave = Snake(last), nn.Conv1d(last, 1, KERNEL)
        table = torch.randn(len(config.rates), NOISE, generator=torch.Generator().manual_seed(0))
        self.register_buffer("table", table, persistent=False)
        self.samples_per_group = LATENTS * prod(config.rates)
        self.lag = _lag(config.rates)
        self.lookahead = ceil(self.lag / self.samples_per_group)
        self._lanes: InLanes | None = None

    @classmethod
    def load(cls, folder: Path) -> Snac:
        """Read a folder like `hubertsiuzdak/snac_24khz`; the encoder's tensors in it are left alone. Raises `WeightsError`."""
        config = SnacConfig.from_json(read_json(folder / "config.json"))
        tensors = fold_weight_norm(read_folder(folder))
        decoding = {k: v for k, v in tensors.items() if not k.startswith("encoder.") and ".in_proj." not in k}
        snac = cls(config)
        load_module(snac, decoding, folder, {name: (_on_disk(name, len(config.rates)),) for name in snac.state_dict()})
        return snac.ready()

    def ready(self) -> Snac:
        """From here on weights stay as they are."""
        for block in self.blocks:
            block.prepare()
        return self.requires_grad_(False)

    @property
    def device(self) -> torch.device:
        return self.table.device

    def record(self, streams: int, repeat: Repeat) -> bool:
        ends = 2 * PAD * (self.spread.in_channels + self.leave.in_channels)
        units = sum(2 * unit.pad * unit.conv.in_channels for unit in self.modules() if isinstance(unit, Unit))
        width = ends + units + sum(block.up.in_channels for block in self.blocks)
        frame = torch.zeros(sum(map(len, BOOKS)), dtype=torch.long, device=self.device)
        self._lanes = InLanes(self._in_lanes, Shape(frame, width, self.samples_per_group, self.lag), streams, repeat)
        return True

    def new_state(self, seed: int, voice: Voice = None) -> StreamState | LaneState:
        """State of an utterance of which nothing has come."""
        if self._lanes:
            return self._lanes.new_state(seed % NOISE)
        first, last = (conv.weight.new_zeros(conv.in_channels, PAD) for conv in (self.spread, self.leave))
        kept = [first, *(kept for block in self.blocks for kept in block.new_kept()), last]
        return StreamState(kept, [0] * len(self.blocks), noise=seed % NOISE)

    @torch.inference_mode()
    def decode(self, frames: Sequence[Tensor], states: Sequence[Any], final: Sequence[bool]) -> list[Tensor]:
        """New frames [n_i, 7] of each stream -> float32 samples that they complete; all that is left if `final[i]`.

        After n frames a stream has given `samples_per_group * n - lag` samples (or none, if that is below zero), after the
        final call `samples_per_group * n`.
        """
        assert len(frames) == len(states) == len(final) and not any(state.ended for state in states)
        if self._lanes:
            return self._lanes.decode(frames, states, final)
        moved = [replace(state) for state in states]  # if anything fails, nothing has happened
        samples: list[list[Tensor]] = [[] for _ in states]
        for portion in _portions([len(new) for new in frames]):
            part = [frames[i][first:end] for i, first, end in portion]
            last = [final[i] and end == len(frames[i]) for i, _, end in portion]
            for (i, *_), made in zip(portion, self._decode(part, [moved[i] for i, *_ in portion], last), strict=True):
                samples[i].append(made)
        for state, new in zip(states, moved, strict=True):
            state.kept, state.passed, state.ended = new.kept, new.passed, new.ended
        return [torch.cat(parts) for parts in samples]

    def _decode(self, frames: Sequence[Tensor], states: Sequence[StreamState], final: Sequence[bool]) -> Sequence[Tensor]:
        call = Call(states, [LATENTS * len(new) for new in frames], final)
        samples = self._sound(torch.cat(list(frames)), call)
        call.commit()
        return samples.split(call.counts)

    def _in_lanes(self, frames: Tensor, lanes: Lanes) -> Tensor:
        return self._sound(frames, LaneCall(lanes, LATENTS))

    def _sound(self, codes: Tensor, call: Call | LaneCall) -> Tensor:
        x = call.extend(self._latents(codes), 2 * PAD, PAD)
        x = _mix(self.enter, call.inside(_slide(self.spread, x)))
        for i, block in enumerate(self.blocks):
            x = block(x, call, partial(self.noise, i))
        x = call.extend(x, 2 * PAD, PAD)
        return call.inside(_slide(self.leave, self.snake(x)))[0].tanh()

    def noise(self, block: int, columns: Tensor) -> Tensor:
        """Gaussian noise [n] of a block's columns, by their places in the table.

        The model was trained with fresh noise each time. Here it is a function of a stream's seed and the column's number,
        so that it does not depend on how the stream was cut nor on its company.
        """
        return self.table[block, columns % NOISE]

    def _latents(self, codes: Tensor) -> Tensor:
        """[n, 7] -> [latent_dim, LATENTS * n]."""
        parts = [book(torch.stack([codes[:, i] for i in at], 1).flatten()) for book, at in zip(self.books, BOOKS, strict=True)]
        return sum(part.repeat_interleave(LATENTS // len(at), 1) for part, at in zip(parts, BOOKS, strict=True))


def _portions(counts: Sequence[int]) -> list[list[tuple[int, int, int]]]:
    """Cut streams of `counts` frames into calls of at most `AT_ONCE`, each a list of (stream, first frame, end)."""
    calls: list[list[tuple[int, int, int]]] = [[]]
    room = AT_ONCE
    for i, count in enumerate(counts):
        for first in range(0, max(1, count), AT_ONCE):
            size = min(AT_ONCE, count - first)
            if size > room:
                calls.append([])
                room = AT_ONCE
            calls[-1].append((i, first, first + size))
            room -= size
    return calls


def _lag(rates: Sequence[int]) -> int:
    """Samples by which the output runs behind: half of every window it passed, in ever finer columns."""
    lag = PAD
    for rate in rates:
        lag = lag * rate + rate // 2 + PAD * sum(DILATIONS)
    return lag + PAD


def _slide(conv: nn.Conv1d, x: Tensor) -> Tensor:
    """The convolution where its window lies within `x`, which may be nowhere."""
    reach = conv.dilation[0] * (KERNEL - 1)
    return conv(x) if x.shape[1] > reach else x.new_zeros(conv.out_channels, 0)


def _mix(conv: nn.Conv1d, x: Tensor) -> Tensor:
    """A convolution of kernel 1, also over no columns at all."""
    return torch.addmm(conv.bias[:, None], conv.weight[:, :, 0], x)


def _on_disk(name: str, blocks: int) -> str:
    """What the checkpoint calls a parameter of `Snac`."""
    module, _, rest = name.partition(".")
    if module == "books":
        return f"quantizer.quantizers.{rest}"
    first = {"spread": 0, "enter": 1, "snake": blocks + 2, "leave": blocks + 3}
    if module in first:
        return f"decoder.model.{first[module]}.{rest}"
    number, part, rest = rest.split(".", 2)
    block = f"decoder.model.{int(number) + 2}.block"
    if part != "units":
        return f"{block}.{ {'snake': '0', 'up': '1', 'noise': '2.linear'}[part] }.{rest}"
    unit, layer, rest = rest.split(".", 2)
    return f"{block}.{int(unit) + 3}.block.{('snake_in', 'conv', 'snake_out', 'mix').index(layer)}.{rest}"
