"""Voices of Pocket-TTS: what a recording of someone leaves in the language model's cache, ready-made or made here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from voxrtc.speechlm.base import Prefix
from voxrtc.speechlm.codecs.mimi import MimiEncoder
from voxrtc.speechlm.layers.attention import halves_from_pairs
from voxrtc.speechlm.layers.decoder import DecoderConfig
from voxrtc.speechlm.pocket.config import PocketConfig
from voxrtc.speechlm.pocket.network import PocketNetwork
from voxrtc.speechlm.weights import WeightsError

PAUSE = 0.08  # seconds of silence at the end of a recording
LAYER = "transformer.layers.{}.self_attn/"


def read_voice(path: Path, decoder: DecoderConfig) -> Prefix:
    """A voice as the package's `export-voice` writes it. Raises `WeightsError`.

    For each layer `cache` holds keys and values [2, 1, room, kv_heads, head_dim], of which the first `offset` are meant
    (in older files the first `len(current_end)`). Keys are rotated already, by neighbours.
    """
    with _opened(path) as file:
        length = _length(file)
        layers = [file.get_tensor(f"{LAYER.format(i)}cache")[:, 0, :length] for i in range(decoder.layers)]
        deeper = f"{LAYER.format(decoder.layers)}cache" in file.keys()  # noqa: SIM118  the file is no dict
    shape = (decoder.kv_heads, decoder.head_dim)
    if deeper or any(layer.shape != (2, length, *shape) for layer in layers):
        found = list(layers[0].shape[2:])
        raise WeightsError(f"{path} has {'more layers' if deeper else f'keys of {found}'}: it is another model's voice.")
    keys, values = torch.stack(layers, dim=1).float()
    return Prefix(_halves(keys), values.contiguous())


def voice_length(path: Path) -> int:
    """Positions that a voice takes. Raises `WeightsError`."""
    with _opened(path) as file:
        return _length(file)


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as wrong:
        raise WeightsError(f"{path} is not a voice of this model: {wrong}.") from wrong


def _length(file: safe_open) -> int:
    first = LAYER.format(0)
    if f"{first}offset" in file.keys():  # noqa: SIM118
        return int(file.get_tensor(f"{first}offset")[0])
    return file.get_slice(f"{first}current_end").get_shape()[0]


def _halves(keys: Tensor) -> Tensor:
    """Reorder the components of rotated keys [..., head_dim] as the projections' are."""
    flat = keys.flatten(0, -2).T
    return halves_from_pairs(flat, len(flat)).T.reshape(keys.shape)


class VoiceEncoder(nn.Module):
    """A recording -> what stands for it in the language model's input."""

    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.mimi = MimiEncoder(config.encoder, config.voice_dim)
        self.project = nn.Linear(config.voice_dim, config.decoder.dim, bias=False)
        self.begin = nn.Parameter(torch.zeros(config.decoder.dim)) if config.bos_before_voice else None

    def forward(self, samples: Tensor) -> Tensor:
        """[n] at the codec's rate -> [frames, dim], with one more in front where the checkpoint wants a beginning."""
        voice = self.project(self.mimi(samples))
        return voice if self.begin is None else torch.cat([self.begin[None], voice])


class _Record:
    """Attention over one whole sequence [n, heads, head_dim] that keeps what a cache would."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.keys.append(k)
        self.values.append(v)
        heads = (x.transpose(0, 1)[None] for x in (q, k, v))
        seen = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return seen[0].transpose(0, 1)


@torch.inference_mode()
def clone(samples: Tensor, encoder: VoiceEncoder, network: PocketNetwork) -> Prefix:
    """The voice of a recording, mono float samples [n] at the codec's rate; it should end in a pause: `end_on_pause`."""
    inputs, record = encoder(samples.to(network.begin.device)), _Record()
    network.trunk(inputs, torch.arange(len(inputs), device=inputs.device), record)
    return Prefix(torch.stack(record.keys), torch.stack(record.values))


def end_on_pause(samples: Tensor, sample_rate: int, pause: float = PAUSE, fade: float = 0.02, floor: float = 35.0) -> Tensor:
    """Make a recording [n] end where a voice's prompts did in training: faded out, with `pause` seconds of silence.

    What is more than `floor` dB below its loudest 20 ms counts as silence and is cut from its end. A prompt that stops in a
    word has the model speak on from there.
    """
    frame = round(0.02 * sample_rate)
    blocks = samples[: len(samples) // frame * frame].view(-1, frame)
    if not len(blocks):
        return samples
    level = 10 * (blocks.square().mean(1) + 1e-24).log10()
    end = (int((level > level.max() - floor).nonzero()[-1]) + 1) * frame
    kept, faded = samples[:end].clone(), min(round(fade * sample_rate), end)
    kept[end - faded :] *= torch.linspace(1, 0, faded)
    return torch.cat([kept, kept.new_zeros(round(pause * sample_rate))])
