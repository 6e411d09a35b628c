"""A GGUF file becomes a folder: against transformers' own reading of it, and with files that are not as they should be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, quantize
from safetensors.torch import load_file

from tests.parity.texts import CONVERSATION
from tests.tiny import GOLDEN
from voxrtc.llm.gguf import cached, convert, read_config, read_tensors, read_tokenizer
from voxrtc.llm.prompt import Prompter
from voxrtc.messages.completion import ChatMessage
from voxrtc.speechlm.causal_lm import CausalLM
from voxrtc.speechlm.layers.attention import DenseCausal
from voxrtc.speechlm.weights import WeightsError

EVERY = 61  # of the scores, as recorded
TINY = ["<|im_start|>", "<|im_end|>", "a", "b", "ab", "Ġ", "Ċ"]


def tiny(path: Path, **changes: object) -> Path:
    """A Llama of one layer in a file of llama.cpp."""
    about = {"architecture": "llama", "pre": "smollm", "surplus": "", **changes}
    writer = GGUFWriter(path, str(about["architecture"]))
    for number, add in ((1, writer.add_block_count), (64, writer.add_embedding_length), (96, writer.add_feed_forward_length)):
        add(number)
    for number, add in ((2, writer.add_head_count), (1, writer.add_head_count_kv), (128, writer.add_context_length)):
        add(number)
    writer.add_vocab_size(len(TINY))
    writer.add_rope_freq_base(1e4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(str(about["pre"]))
    writer.add_token_list(TINY)
    writer.add_token_types([3, 3, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(1)
    random = np.random.default_rng(0)
    shapes = {"token_embd": (7, 64), "output_norm": (64,), "blk.0.attn_norm": (64,), "blk.0.ffn_norm": (64,)}
    shapes |= {"blk.0.attn_q": (64, 64), "blk.0.attn_k": (32, 64), "blk.0.attn_v": (32, 64), "blk.0.attn_output": (64, 64)}
    shapes |= {"blk.0.ffn_gate": (96, 64), "blk.0.ffn_up": (96, 64), "blk.0.ffn_down": (64, 96)}
    if about["surplus"]:
        shapes[str(about["surplus"])] = (64, 64)
    for name, shape in shapes.items():
        values = random.standard_normal(shape).astype(np.float32)
        kind = GGMLQuantizationType.Q8_0 if len(shape) > 1 else GGMLQuantizationType.F32
        writer.add_tensor(f"{name}.weight", quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def reader(gguf: Path) -> GGUFReader:
    """Of the file of the chat model that comes along."""
    return GGUFReader(gguf)


def test_scores_and_words_are_the_oracles(gguf: Path, reader: GGUFReader) -> None:
    """In float32, from the file's own numbers."""
    golden = load_file(GOLDEN / "smollm2" / "golden.safetensors")
    config = read_config(reader)
    network = CausalLM.filled(config, read_tensors(reader, config), gguf, 256)
    ids = golden["ids"].tolist()
    written = golden["written"].tolist()
    whole = torch.tensor([ids + written])
    with torch.inference_mode():
        hidden = network(whole, torch.arange(whole.shape[1])[None], DenseCausal())[0]
        scores = network.head(hidden[len(ids) - 4 : -1])
    assert (scores[:4, ::EVERY] - golden["scores"]).abs().max() <= 1e-4
    assert scores[3:].argmax(-1).tolist() == written


def test_tokens_are_the_oracles(reader: GGUFReader) -> None:
    golden = load_file(GOLDEN / "smollm2" / "golden.safetensors")
    prompter = Prompter(read_tokenizer(reader))
    for text, ids in json.loads((GOLDEN / "smollm2" / "texts.json").read_text("utf-8")).items():
        assert prompter.tokenizer.encode(text).ids == ids
        assert prompter.tokenizer.decode(ids) == text
    messages = [ChatMessage(**message) for message in CONVERSATION]
    assert prompter.prompt(messages, ()).ids == golden["ids"].tolist()


def test_a_file_is_made_into_a_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tiny(tmp_path / "tiny.gguf")
    folder = cached(file)
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert cached(file) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "nothing unfinished is left"
    network = CausalLM.load(folder, 32)
    assert network.head(network.embed(torch.tensor([2]))).shape == (1, len(TINY))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_broken_cache_is_made_anew(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tiny(tmp_path / "tiny.gguf")
    whole = (cached(file) / name).read_bytes()
    (cached(file) / name).write_bytes(whole[: len(whole) // 2])
    assert (cached(file) / name).read_bytes() == whole


def test_another_file_of_that_name_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = cached(tiny(tmp_path / "tiny.gguf"))
    with (tmp_path / "tiny.gguf").open("ab") as file:
        file.write(bytes(64))
    assert cached(tmp_path / "tiny.gguf") != folder


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"architecture": "mamba"}, "a “mamba” model"),
        ({"pre": "llama-bpe"}, "llama-bpe"),
        ({"surplus": "blk.0.ffn_gate_inp"}, "ffn_gate_inp"),
    ],
)
def test_what_we_cannot_read_is_told_and_leaves_nothing(
    changes: dict, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tiny(tmp_path / "tiny.gguf", **changes)
    with pytest.raises(WeightsError, match=told):
        cached(file)
    assert not list((tmp_path / "cache" / "voxrtc").iterdir())


def test_a_cut_file_is_told(tmp_path: Path) -> None:
    file = tiny(tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes()[:2_000])
    with pytest.raises(WeightsError, match="not a whole GGUF file"):
        convert(file, tmp_path)
