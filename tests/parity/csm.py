"""Oracle of `speechlm.csm`: transformers' `CsmForConditionalGeneration`, its processor, and Sesame's way to write a text."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, CsmConfig, CsmForConditionalGeneration, CsmProcessor, EncodecFeatureExtractor

from tests.parity import bpe
from tests.parity.mimi import HOP, SHAPE
from tests.parity.orpheus import TEXTS
from tests.parity.saving import resaved, write_json
from tests.tiny import noise

ROPE = {"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 32.0}
CONFIG = CsmConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
    rope_parameters={
        **ROPE, "low_freq_factor": 0.125, "high_freq_factor": 0.5, "original_max_position_embeddings": 1024,
    },
    depth_decoder_config={
        "backbone_hidden_size": 32, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 40, "head_dim": 8,
        "rope_parameters": {
            **ROPE, "low_freq_factor": 0.001953125, "high_freq_factor": 0.0078125, "original_max_position_embeddings": 16,
        },
    },
    codec_config={"model_type": "mimi", **SHAPE},
)  # fmt: skip
SPECIAL = {"<|begin_of_text|>": 128_000, "<|end_of_text|>": 128_001, "<|AUDIO|>": 128_002, "<|audio_eos|>": 128_003}
SPEAKERS = ("0", "1", "7")
FRAMES, CLIP = 64, 6  # of speech, of the recording
SILENT = [2048, 2049, 2050]  # rows of the tables that are no codes
PART = slice(None, 2048, 13)  # of the scores, a part that is small enough to keep


@torch.inference_mode()
def record(golden: Path) -> None:
    """Prompts of 20 texts; scores of both decoders and 64 frames of greedy speech, alone and after a recording."""
    keep = golden / "csm"
    model = resaved(CsmForConditionalGeneration(CONFIG), keep, shard="8MB")
    rename_shards(keep)
    bpe.train(TEXTS, SPECIAL, {}, "<|begin_of_text|> $A <|end_of_text|>").save(str(keep / "tokenizer.json"), pretty=False)
    tokenizer = AutoTokenizer.from_pretrained(keep, pad_token="<|end_of_text|>")
    told = [
        {"text": text, "speaker": speaker, "ids": tokenizer(f"[{speaker}]{text}").input_ids}
        for text, speaker in zip(TEXTS, itertools.cycle(SPEAKERS), strict=False)
    ]
    write_json(keep / "prompts.json", told)
    processor = CsmProcessor(EncodecFeatureExtractor(sampling_rate=24_000), tokenizer)
    after = processor(
        text=f"{framed('0', TEXTS[0])}<|AUDIO|><|audio_eos|>{framed('0', TEXTS[1])}",
        audio=(noise(CLIP * HOP) / 4).numpy(),
    )
    alone = processor(text=framed("0", TEXTS[1]))
    last = model(**after, output_hidden_states=True)
    hidden = last.hidden_states[-1][0, -1]
    frame = torch.arange(32) * 61 % 2048
    depth = model.depth_decoder(torch.cat([frame[:1], frame[:-1]])[None], hidden[None]).logits[0]
    save_file(
        {
            "ids": after.input_ids[0],
            "scores": last.logits[0, :, PART].contiguous(),
            "hidden": hidden.contiguous(),
            "frame": frame,
            "depth_scores": depth[:, PART].contiguous(),
            "greedy.alone": greedy(model, alone),
            "greedy.after": greedy(model, after),
        },
        keep / "golden.safetensors",
    )


def rename_shards(keep: Path) -> None:
    """As in Sesame's repository, where the usual name was taken."""
    for name in ("manifest.json", "model.safetensors.index.json"):
        told = (keep / name).read_text().replace('"model-', '"transformers-')
        (keep / name).unlink()
        (keep / name.replace("model.safetensors", "transformers.safetensors")).write_text(told)


def framed(speaker: str, text: str) -> str:
    """A text as the processor takes it, which adds no marks of its own."""
    return f"<|begin_of_text|>[{speaker}]{text}<|end_of_text|>"


def greedy(model: CsmForConditionalGeneration, inputs: dict) -> torch.Tensor:
    """The frames [64, 32]."""
    made = model.generate(
        **inputs, do_sample=False, depth_decoder_do_sample=False, max_new_tokens=FRAMES, suppress_tokens=SILENT,
        depth_decoder_suppress_tokens=SILENT,
    )[0]  # fmt: skip
    assert made.shape == (FRAMES, 32) and made.max() < 2048, "the speech ended early: choose another text"
    return made
