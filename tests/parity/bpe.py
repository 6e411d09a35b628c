"""A tiny byte-level BPE, split and framed as Llama 3's, with marks at ids of one's choice."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

LLAMA_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train(texts: Sequence[str], special: dict[str, int], ordinary: dict[str, int], frame: str) -> Tokenizer:
    """Marks by id, special ones and ordinary ones; `frame` is what is put around a text `$A`."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = words = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False))
    merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
    tokenizer = Tokenizer(models.BPE(trained.get_vocab() | special | ordinary, merges, ignore_merges=True))
    tokenizer.pre_tokenizer, tokenizer.decoder = words, decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in special])
    tokenizer.add_tokens([AddedToken(mark, special=False) for mark in ordinary])
    used = [(mark, id) for mark, id in special.items() if mark in frame]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=frame, pair=f"{frame} {frame.replace('$A', '$B')}", special_tokens=used
    )
    return tokenizer
