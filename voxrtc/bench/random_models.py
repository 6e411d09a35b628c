"""Models at their full size with random weights: what they compute costs the same as with real ones."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor, nn

from voxrtc.speechlm.base import HOST
from voxrtc.speechlm.causal_lm import CausalLM
from voxrtc.speechlm.codecs.dit import DiTConfig
from voxrtc.speechlm.codecs.dit_flow import DiTFlow
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer
from voxrtc.speechlm.codecs.hift import HiftConfig
from voxrtc.speechlm.codecs.hift_stream import HiftVocoder
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokens
from voxrtc.speechlm.codecs.snac import Snac, SnacConfig
from voxrtc.speechlm.codecs.token_flow import FlowConfig, FlowPrompt, TokenFlow
from voxrtc.speechlm.codecs.voice_reader import VoiceReader
from voxrtc.speechlm.cosyvoice2.model import FRAMES, HEARD_CODES, PROMPT, CosyVoice2
from voxrtc.speechlm.cosyvoice2.network import MOST_ROWS, Rows
from voxrtc.speechlm.cosyvoice2.network import Network as CosyNetwork
from voxrtc.speechlm.cosyvoice2.prompt import Voice
from voxrtc.speechlm.cosyvoice2.text import Writer as CosyWriter
from voxrtc.speechlm.csm.config import csm_config
from voxrtc.speechlm.csm.model import Csm
from voxrtc.speechlm.csm.network import Network as CsmNetwork
from voxrtc.speechlm.csm.prompt import BEGIN, END
from voxrtc.speechlm.csm.prompt import Writer as CsmWriter
from voxrtc.speechlm.layers.decoder import DecoderConfig
from voxrtc.speechlm.layers.linear import pack_all
from voxrtc.speechlm.orpheus import POSITIONS, SPOKEN, Orpheus, OrpheusDetokenizer
from voxrtc.speechlm.orpheus import Network as OrpheusNetwork
from voxrtc.speechlm.pocket.config import PocketConfig
from voxrtc.speechlm.pocket.model import Pocket
from voxrtc.speechlm.pocket.released import released
from voxrtc.speechlm.pocket.text import MAX_TOKENS, Writer
from voxrtc.speechlm.pocket.voice import LAYER
from voxrtc.speechlm.stepaudio2 import model as step
from voxrtc.speechlm.stepaudio2.detokenizer import StepDetokenizer
from voxrtc.speechlm.stepaudio2.ear import Ear, EarConfig
from voxrtc.speechlm.stepaudio2.text import CODES, NAMES, Marks
from voxrtc.speechlm.stepaudio2.text import Writer as StepWriter
from voxrtc.speechlm.stepaudio2.voice import Voices

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
COSYVOICES = {"cosyvoice2": torch.float32, "cosyvoice2-bf16": torch.bfloat16}
COSYVOICE2 = DecoderConfig(
    layers=24,
    dim=896,
    heads=14,
    kv_heads=2,
    head_dim=64,
    ffn_dim=4864,
    positions=PROMPT + FRAMES,
    rope_theta=1e6,
    qkv_bias=True,
)
QWEN2_TEXTS = 151_936
ORPHEUSES = {"orpheus-bf16": torch.bfloat16}
ORPHEUS_3B = DecoderConfig(
    layers=28, dim=3072, heads=24, kv_heads=8, head_dim=128, ffn_dim=8192, positions=POSITIONS, rope_theta=5e5
)
STEPS = {"step-audio-2-bf16": torch.bfloat16}
STEP_LAYERS, STEP_VOCABULARY, STEP_WORDS = 28, 158_720, 151_643
STEP_SHARE = 14  # one layer in so many is there: all are 13 GB in bfloat16
STEP_MARKS = Marks(151_665, 151_666, 151_688, 151_690, 151_689, 151_693, 151_694, 151_695, 151_696, 151_696 + CODES)
STEP_AUDIO_2 = DecoderConfig(
    layers=STEP_LAYERS // STEP_SHARE, dim=3584, heads=28, kv_heads=4, head_dim=128, ffn_dim=18_944,
    positions=step.PROMPT + step.FRAMES, rope_theta=1e6, qkv_bias=True,
)  # fmt: skip
STEP_AUDIO_2_WHOLE = replace(STEP_AUDIO_2, layers=STEP_LAYERS)
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
    return Csm(network, CsmWriter(_words({BEGIN: 0, END: 1, "?": 2}), config.books), mimi(device), ["0"])


def mimi(device: torch.device = HOST) -> MimiTokens:
    """CSM's Mimi with random weights."""
    codec = MimiTokens(csm_config(CSM_1B).codec).to(device).requires_grad_(False)
    codec.quantizer.entries.normal_(std=0.1)
    codec.decoder.upsample.taps.normal_()  # it begins as zeros, and the sound would hang on nothing
    codec.pack()
    return codec


def orpheus(dtype: torch.dtype, device: torch.device = HOST) -> Orpheus:
    """Orpheus-3B with random weights, and words for tokens."""
    with torch.device("meta"):
        network = OrpheusNetwork(ORPHEUS_3B, SPOKEN.stop)
    network.head = nn.Linear(ORPHEUS_3B.dim, len(SPOKEN), bias=False, device="meta")
    _fill(network, dtype, device)
    network.pack()
    return Orpheus(network, _words({"?": 0}), OrpheusDetokenizer(snac(device)), ["tara"])


def snac(device: torch.device = HOST) -> Snac:
    """SNAC with random weights."""
    return Snac(SNAC_24KHZ).to(device).ready()


def stepaudio2(
    dtype: torch.dtype,
    device: torch.device = HOST,
    decoder: DecoderConfig = STEP_AUDIO_2,
    ear: EarConfig | None = None,
    flow: FlowConfig | None = None,
    hift: HiftConfig | None = None,
) -> step.StepAudio2:
    """Step-Audio 2 mini with random weights, words for tokens, in nobody's voice; of the language model's layers a share.

    Of language model and ear `dtype`; what hears recordings of voices is not there. Other shapes than its own are for tests.
    """
    marks = {NAMES[field]: id for field, id in asdict(STEP_MARKS).items()}
    words = {f"word{id}" if id else "?": id for id in range(STEP_WORDS)}
    writer = StepWriter(
        _words(words | {f"<audio_{code}>": STEP_MARKS.first_code + code for code in range(CODES)} | marks), STEP_MARKS
    )
    with torch.device("meta"):
        network, hearing = CausalLM(decoder, STEP_VOCABULARY), Ear(ear or EarConfig())
        network.head = nn.Linear(decoder.dim, len(writer.sayable()), bias=False)
    for part in (network, hearing):
        _fill(part, dtype, device)
    network.head.weight[-CODES - 1 :] *= 8  # else hardly a code would be among the words, and the detokenizer had nothing to do
    ends = torch.isin(writer.sayable(), torch.tensor([STEP_MARKS.end, STEP_MARKS.speak_end]))
    network.head.weight[ends.to(device)] = 0  # nor does chance end it
    network.pack()
    hearing.pack()
    sound = sound_of(DiTFlow(flow or FlowConfig(estimator=DiTConfig())), device, hift)
    detokenizer = StepDetokenizer(sound.flow, sound.hift, STEP_MARKS.first_code)
    return step.StepAudio2(network, hearing, writer, detokenizer, Voices(detokenizer, cast(VoiceReader, None), {}))


def cosyvoice2(
    dtype: torch.dtype,
    device: torch.device = HOST,
    decoder: DecoderConfig = COSYVOICE2,
    flow: FlowConfig | None = None,
    hift: HiftConfig | None = None,
) -> CosyVoice2:
    """CosyVoice 2 with random weights, words for tokens, and a voice of as much of a recording as its flow hears.

    Of the language model `dtype`; what hears recordings is not there. Other shapes than its own are for tests.
    """
    with torch.device("meta"):
        network = CosyNetwork(decoder, Rows(QWEN2_TEXTS, 6561))
    _fill(network, dtype, device)
    pack_all(network, MOST_ROWS)
    detokenizer = sound_of(TokenFlow(flow or FlowConfig()), device, hift)
    model = CosyVoice2(network, CosyWriter(_words({"?": 0})), detokenizer, cast(VoiceReader, None))
    codes = torch.randint(6561, (HEARD_CODES,))
    prompt = FlowPrompt(*(part.to(device) for part in (torch.randn(192), codes, torch.randn(2 * len(codes), 80))))
    model.default = Voice(detokenizer.flow.prime(prompt), codes=tuple(codes.tolist()))
    return model


def sound_of(flow: TokenFlow, device: torch.device = HOST, hift: HiftConfig | None = None) -> FlowDetokenizer:
    """A flow with the weights that it was made with, and HiFT."""
    flow.requires_grad_(False).to(device).prepare()
    return FlowDetokenizer(flow, HiftVocoder(hift or HiftConfig(), 512, 9).requires_grad_(False).to(device))


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
