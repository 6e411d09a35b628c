"""Oracle of `speechlm.orpheus`: transformers' Llama and tokenizer, prompts as Orpheus's authors build them."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer, LlamaConfig, LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerFast

from tests.parity import bpe
from tests.parity.saving import saved, write_json

CONFIG = LlamaConfig(
    vocab_size=156_940, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=48, rms_norm_eps=1e-5, tie_word_embeddings=True, max_position_embeddings=131_072,
    rope_parameters={
        "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    bos_token_id=128_000, eos_token_id=128_258,
)  # fmt: skip
VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
TEXTS = (
    "Yes.", "Hello there, how are you?", "The train leaves at 10:45 from platform 7.", "I'd say it's theirs; isn't it?",
    "<laugh> That is funny!", "Well… <sigh> I don't know — maybe.", "Dr. Smith's e-mail is smith@example.com",
    "“Quoted”, he said.", "   spaces   in   between   ", "NAÏVE café, déjà vu", "你好，世界", "😀 emoji 👩‍🚀",
    "ALL CAPS AND 1234567890", "line one\nline two", "a", "…", "it costs $3.50 (or €3,20)", "tara: tara: tara:",
    "Supercalifragilisticexpialidocious", "What? No! Yes; indeed: of course, then.",
)  # fmt: skip
STOP, FIRST, CODES, SLOTS = 128_258, 128_266, 4096, 7
FRAMES = 64
SPOKEN = slice(STOP, FIRST + SLOTS * CODES, 29)  # of the scores, a part that is small enough to keep


class OneSlot(LogitsProcessor):
    """The stated rule: only codes of the slot that is due, and the end of speech where a frame ends."""

    def __init__(self, prompt: int) -> None:
        self.prompt = prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        slot = (input_ids.shape[1] - self.prompt) % SLOTS
        allowed = torch.zeros_like(scores, dtype=torch.bool)
        allowed[:, FIRST + CODES * slot : FIRST + CODES * (slot + 1)] = True
        allowed[:, STOP] = slot == 0
        return scores.masked_fill(~allowed, -torch.inf)


@torch.inference_mode()
def record(golden: Path) -> None:
    """Prompts of 20 texts, scores over one sequence, and 64 frames of greedy speech without and with the penalty."""
    keep = golden / "orpheus"
    model = saved(CONFIG, keep, torch.bfloat16, shard="4MB")
    train_tokenizer().save(str(keep / "tokenizer.json"), pretty=False)
    spoken = list(zip(TEXTS, itertools.cycle(VOICES)))
    prompts = [prompt(keep, *said) for said in spoken]
    told = [{"text": text, "voice": voice, "ids": ids} for (text, voice), ids in zip(spoken, prompts, strict=True)]
    write_json(keep / "prompts.json", told)
    codes = torch.arange(26) * 1009 % CODES
    ids = torch.cat((torch.tensor(prompts[1]), FIRST + CODES * (torch.arange(26) % SLOTS) + codes))
    scores = model(ids[None]).logits[0, :, SPOKEN].contiguous()
    speech = {f"greedy.{penalty}": greedy(model, prompts[1], penalty) for penalty in (1.0, 1.3)}
    save_file({"ids": ids, "scores": scores, **speech}, keep / "golden.safetensors")


def prompt(folder: Path, text: str, voice: str) -> list[int]:
    """As `orpheus_tts.engine_class` builds it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    return [128259, *tokenizer(f"{voice}: {text}").input_ids, 128009, 128260, 128261, 128257]


def greedy(model: torch.nn.Module, ids: list[int], penalty: float) -> torch.Tensor:
    """The ids of 64 frames."""
    made = model.generate(
        torch.tensor([ids]),
        do_sample=False,
        max_new_tokens=SLOTS * FRAMES,
        repetition_penalty=penalty,
        logits_processor=LogitsProcessorList([OneSlot(len(ids))]),
    )[0, len(ids) :]
    assert len(made) == SLOTS * FRAMES, "the speech ended early: choose another text"
    return made


def train_tokenizer() -> Tokenizer:
    """With the marks at their real ids."""
    special = {"<|begin_of_text|>": 128_000, "<|eot_id|>": 128_009}
    return bpe.train(TEXTS, special, {"<custom_token_2>": 128_258}, "<|begin_of_text|> $A")
