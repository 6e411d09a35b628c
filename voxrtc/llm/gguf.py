"""A llama.cpp file (GGUF) -> a folder as transformers would have saved it: the rest of the program knows only the latter.

The container and its kinds of quantised numbers are read by llama.cpp's own `gguf`. Here are the names, and the two things
that llama.cpp keeps otherwise: queries and keys lie with neighbours paired, and the tokenizer in the file's head.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader, dequantize
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from voxrtc.speechlm import weights
from voxrtc.speechlm.layers.attention import halves_from_pairs
from voxrtc.speechlm.weights import WeightsError, read_json

log = logging.getLogger(__name__)

CONTROL = 3  # a token's type in the file: a mark that is no text
NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
BLOCK = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.weight")


def cached(file: Path) -> Path:
    """The folder that a file was made into, in the user's cache: made now, if it is not there. Raises `WeightsError`."""
    with file.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voxrtc"
    folder = caches / f"{file.stem}-{digest[:16]}"
    if folder.exists() and not _is_whole(folder):
        shutil.rmtree(folder)
    if not folder.exists():
        try:
            _make(file, folder)
        except (OSError, SafetensorError) as wrong:
            if not folder.exists():  # by another process, meanwhile
                raise WeightsError(_no_place(file, caches, wrong)) from wrong
    return folder


def _make(file: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))  # in use by nobody until it has its name
    try:
        convert(file, made)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _no_place(file: Path, caches: Path, wrong: Exception) -> str:
    """`convert` failed to write."""
    needed = sum(2 * math.prod(tensor.shape.tolist()) for tensor in _open(file).tensors)
    return (
        f"{file.name} is unpacked once, into {caches}, which takes {needed / 1e9:.2f} GB. That cannot be written ({wrong}). "
        "Free some space, or set XDG_CACHE_HOME to another folder."
    )


def convert(file: Path, folder: Path) -> None:
    """Write `config.json`, `tokenizer.json` and `model.safetensors` into a folder. Raises `WeightsError`.

    In float16, which keeps what the file's small integers and their scales say to one part in two thousand.
    """
    reader = _open(file)
    config = read_config(reader)
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    read_tokenizer(reader).save(str(folder / "tokenizer.json"))
    tensors = {name: tensor.half() for name, tensor in read_tensors(reader, config).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def read_config(reader: GGUFReader) -> dict[str, Any]:
    """transformers' `config.json`. Raises `WeightsError` when the file is of another architecture than Llama."""
    about = Head(reader)
    if (kind := about["general.architecture"]) != "llama":
        raise WeightsError(f"The file is of a “{kind}” model; wanted llama.")
    return {
        "model_type": "llama",
        "hidden_size": about["llama.embedding_length"],
        "intermediate_size": about["llama.feed_forward_length"],
        "num_hidden_layers": about["llama.block_count"],
        "num_attention_heads": about["llama.attention.head_count"],
        "num_key_value_heads": about["llama.attention.head_count_kv"],
        "max_position_embeddings": about["llama.context_length"],
        "vocab_size": about["llama.vocab_size"],
        "rms_norm_eps": about["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": about["llama.rope.freq_base"],
        "eos_token_id": about["tokenizer.ggml.eos_token_id"],
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in reader.tensors),
    }


def read_tensors(reader: GGUFReader, config: Mapping[str, Any]) -> dict[str, Tensor]:
    """All tensors under transformers' names, in float32."""
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    tensors = {}
    for each in reader.tensors:
        values = torch.from_numpy(dequantize(each.data, each.tensor_type).copy())
        name = _name(each.name)
        tensors[name] = halves_from_pairs(values, head_dim) if name.endswith(("q_proj.weight", "k_proj.weight")) else values
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def read_tokenizer(reader: GGUFReader) -> Tokenizer:
    """The byte-level BPE of the file's head. Raises `WeightsError` when it is of another kind than SmolLM's."""
    about = Head(reader)
    kind = about["tokenizer.ggml.model"], about["tokenizer.ggml.pre"]
    if kind != ("gpt2", "smollm"):
        raise WeightsError(f"The file's tokenizer is of the kind {kind}; wanted ('gpt2', 'smollm').")
    tokens, types = about["tokenizer.ggml.tokens"], about["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in about["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, merges))
    digits, words = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    tokenizer.decoder = decoders.ByteLevel()
    marks = [token for token, type in zip(tokens, types, strict=True) if type == CONTROL]
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    return tokenizer


class Head:
    """What a file says of itself, by key. Raises `WeightsError` for what it does not say."""

    def __init__(self, reader: GGUFReader) -> None:
        self._fields = reader.fields

    def __getitem__(self, key: str) -> Any:
        if key not in self._fields:
            raise WeightsError(f"The file says nothing of {key}.")
        return self._fields[key].contents()


def _is_whole(folder: Path) -> bool:
    """Whether what is in the cache can be read, as far as that shows without reading all of it."""
    try:
        read_json(folder / "config.json")
        weights.read_tokenizer(folder / "tokenizer.json")
        with safe_open(folder / "model.safetensors", "pt"):  # looks whether the file is as long as its tensors
            return True
    except (weights.WeightsError, SafetensorError, OSError) as broken:
        log.warning("the cache of the chat model is broken and is made anew: %s", broken)
        return False


def _open(file: Path) -> GGUFReader:
    try:
        return GGUFReader(file)
    except FileNotFoundError as missing:
        raise WeightsError(f"{file} is missing.") from missing
    except Exception as broken:  # a cut file makes the reader stumble anywhere
        raise WeightsError(f"{file} is not a whole GGUF file ({broken}).") from broken


def _name(theirs: str) -> str:
    """Raises `WeightsError` for a tensor that a Llama does not have."""
    found = BLOCK.fullmatch(theirs)
    if theirs == "output.weight":
        return "lm_head.weight"
    if found is None or found[2] not in NAMES:
        raise WeightsError(f"The file has a tensor {theirs}, which a Llama has not.")
    layer = f"layers.{found[1]}." if found[1] else ""
    return f"model.{layer}{NAMES[found[2]]}.weight"
