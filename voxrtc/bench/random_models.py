"""Models at their full size with random weights: what they compute costs the same as with real ones."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor, nn

from voxrtc.speechlm.base import HOST
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokens
from voxrtc.speechlm.codecs.snac import Snac, SnacConfig
from voxrtc.speechlm.csm.config import csm_config
from voxrtc.speechlm.csm.model import Csm
from voxrtc.speechlm.csm.network import Network as CsmNetwork
from voxrtc.speechlm.csm.prompt import BEGIN, END
from voxrtc.speechlm.csm.prompt import Writer as CsmWriter
from voxrtc.speechlm.layers.decoder import DecoderConfig
from voxrtc.speechlm.orpheus import POSITIONS, SPOKEN, Orpheus, OrpheusDetokenizer
from voxrtc.speechlm.orpheus import Network as OrpheusNetwork
from voxrtc.speechlm.pocket.config import PocketConfig
from voxrtc.speechlm.pocket.model import Pocket
from voxrtc.speechlm.pocket.released import released
from voxrtc.speechlm.pocket.text import MAX_TOKENS, Writer
from voxrtc.speechlm.pocket.voice import LAYER

VOICE = 126  # positions: ten seconds
POCKETS = {
    "pocket": "english_2026-10",
    "pocket-18m": "english_18m_2026-10",
    "pocket-7m": "english_7m_2026-10",
    "pocket-2m": "english_2m_2026-10",
}
CSMS = {"csm": torch.float32, "csm-bf16": torch.bfloat16}
CSM_1B = {
    "audio_num_codebooks": 32, "audio_vocab_size": 2051, "backbone_flavor": "llama-1B", "decoder_flavor": "llama-100M",
    "text_vocab_size": 128_256,
}  # fmt: skip
ORPHEUSES = {"orpheus-bf16": torch.bfloat16}
ORPHEUS_3B = DecoderConfig(
    layers=28, dim=3072, heads=24, kv_heads=8, head_dim=128, ffn_dim=8192, positions=POSITIONS, rope_theta=5e5
)
SNAC_24KHZ = SnacConfig(latent_dim=768, dim=1024, rates=(8, 8, 4, 2), codes=4096, code_dim=8)


def pocket(name: str, folder: Path) -> Pocket:
    """A Pocket-TTS with the weights and the voice in `folder`, or random ones."""
    values = released(POCKETS[name])
    assert values
    config, voice = PocketConfig.parse(values), folder / "voice.safetensors"
    shape = config.decoder
    if not voice.exists():
        cache = torch.randn(2, 1, VOICE, shape.kv_heads, shape.head_dim)
        parts = {"cache": cache, "offset": torch.tensor([VOICE])}
        save_file({LAYER.format(i) + k: v.clone() for i in range(shape.layers) for k, v in parts.items()}, voice)
    model = Pocket(config, Writer(config.text, lambda text: list(range(min(MAX_TOKENS, len(text) // 2)))), {"random": voice})
    weights = folder / "model.safetensors"
    model.fill(weights) if weights.exists() else model.ready()
    return model


def csm(dtype: torch.dtype, device: torch.device = HOST) -> Csm:
    """CSM-1B with random weights, and words for tokens."""
    config = csm_config(CSM_1B)
    with torch.device("meta"):
        network = CsmNetwork(config)
    _fill(network, dtype, device)
    network.pack()
    codec = MimiTokens(config.codec).to(device).requires_grad_(False)
    codec.quantizer.entries.normal_(std=0.1)
    codec.pack()
    return Csm(network, CsmWriter(_words({BEGIN: 0, END: 1, "?": 2}), config.books), codec, ["0"])


def orpheus(dtype: torch.dtype, device: torch.device = HOST) -> Orpheus:
    """Orpheus-3B with random weights, and words for tokens."""
    with torch.device("meta"):
        network = OrpheusNetwork(ORPHEUS_3B, SPOKEN.stop)
    network.head = nn.Linear(ORPHEUS_3B.dim, len(SPOKEN), bias=False, device="meta")
    _fill(network, dtype, device)
    network.pack()
    return Orpheus(network, _words({"?": 0}), OrpheusDetokenizer(Snac(SNAC_24KHZ).to(device).ready()), ["tara"])


def _fill(network: nn.Module, dtype: torch.dtype, device: torch.device = HOST) -> None:
    """Give a network that was laid out on device "meta" its weights."""
    weights = {name: _random(tensor.shape, dtype).to(device) for name, tensor in network.state_dict().items()}
    network.load_state_dict(weights, assign=True)
    network.requires_grad_(False)


def _words(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer


def _random(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Such that signals keep their size."""
    bound = (3 / shape[-1]) ** 0.5
    return torch.empty(shape, dtype=dtype).uniform_(-bound, bound) if len(shape) > 1 else torch.ones(shape, dtype=dtype)
