"""Oracle of `speechlm.cosyvoice2`: its language model and tokenizer in token2wav-cosyvoice's copy, over transformers' Qwen2."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.parity import bpe, flow, listening, stubs  # noqa: F401  before what it stands in for
from tests.parity.flow import filled
from tests.parity.saving import write_json
from tests.tiny import fill, manifest

from cosyvoice.cli import frontend  # isort: skip
from cosyvoice.llm.llm import Qwen2Encoder, Qwen2LM  # isort: skip
from cosyvoice.tokenizer.tokenizer import get_qwen_tokenizer  # isort: skip

CODES = 6561
TEXTS = (
    "Yes.", "The train to the coast leaves at ten.", "Don't! [laughter] It's <strong>so</strong> good…", "你好，世界。 1234",
    "cafe\u0301 NAÏVE  two  blanks\nand a line", "<laughter>ha</laughter> [breath]", "I'LL they've 3.14",
)  # fmt: skip
CONFIG = dict(
    vocab_size=512, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
    rms_norm_eps=1e-6, tie_word_embeddings=True, max_position_embeddings=32_768,
    rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
)  # fmt: skip
SAID, TOLD, WRITTEN = "The train to the coast.", "Speak slowly.", "It leaves at ten."
SPOKEN, STEPS = 20, 40  # codes before, and codes that follow


@torch.inference_mode()
def record(golden: Path) -> None:
    """Token ids of TEXTS, prompts of the modes, scores over a prompt, and the STEPS likeliest codes that follow one by one."""
    keep = golden / "cosyvoice2"
    blank = keep / "CosyVoice-BlankEN"
    blank.mkdir(parents=True, exist_ok=True)
    model = oracle(blank)
    models = {"llm.pt": model, "flow.pt": flow.flow(), "hift.pt": flow.hift()}
    write_json(keep / "manifest.json", {name: manifest(each.state_dict()) for name, each in models.items()})
    write_vocabulary(blank)
    tokenizer = get_qwen_tokenizer(str(blank), skip_special_tokens=True)
    write_json(keep / "texts.json", [{"text": text, "ids": tokenizer.encode(text)} for text in TEXTS])
    write_json(keep / "modes.json", modes(model, tokenizer))
    save_file(speech(model), keep / "golden.safetensors")
    listening.export(keep)


def oracle(blank: Path) -> Qwen2LM:
    """It wants a folder with a Qwen2, of which the configuration is kept."""
    with tempfile.TemporaryDirectory() as folder:
        Qwen2ForCausalLM(Qwen2Config(**CONFIG)).save_pretrained(folder)
        shutil.copy(Path(folder, "config.json"), blank)
        dim = CONFIG["hidden_size"]
        model = filled(Qwen2LM(dim, dim, CODES, Qwen2Encoder(folder), sampling=max))
    table = model.llm.model.model.embed_tokens.weight  # tied to the head of text, which was filled last
    table.copy_(fill("llm.model.model.embed_tokens.weight", table.shape))
    return model


def write_vocabulary(folder: Path) -> None:
    """A tiny one, in the two files of Qwen2's repository. Its words are cut by Llama's rule, which only its training sees."""
    trained = json.loads(bpe.train(TEXTS, {}, {}, "$A").to_str())["model"]
    write_json(folder / "vocab.json", trained["vocab"])
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in trained["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n", "utf-8")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": False})


def speech(model: Qwen2LM) -> dict[str, torch.Tensor]:
    """With a recording's text and codes before, as `Qwen2LM.inference` lays them out.

    Its own steps want the cache of an older transformers, so here each code follows from the whole.
    """
    text, codes = torch.arange(18) * 7 % 300, torch.arange(SPOKEN) * 331 % CODES
    marks, texts = model.llm_embedding.weight, model.llm.model.model.embed_tokens(text)
    for _ in range(STEPS):
        codes = torch.cat((codes, scores(model, marks, texts, codes)[-1, :CODES].argmax()[None]))
    return {"scores": scores(model, marks, texts, codes)[:, ::29].contiguous(), "said": codes[SPOKEN:].clone()}


def modes(model: Qwen2LM, tokenizer: object) -> dict[str, dict]:
    """What the language model is given for WRITTEN in each mode, as rows of one table: text, codes, marks. And for how long.

    The recording is SPOKEN codes in which SAID is said.
    """
    front = frontend.CosyVoiceFrontEnd.__new__(frontend.CosyVoiceFrontEnd)
    front.tokenizer, front.device, front.allowed_special = tokenizer, torch.device("cpu"), "all"
    codes = torch.arange(SPOKEN)[None] * 331 % CODES
    front._extract_speech_token = lambda speech: (codes, torch.tensor([SPOKEN]))
    front._extract_speech_feat = lambda speech: (torch.zeros(1, 2 * SPOKEN, 80), torch.tensor([2 * SPOKEN]))
    front._extract_spk_embedding = lambda speech: torch.zeros(1, 192)
    frontend.torchaudio.transforms = SimpleNamespace(Resample=lambda **rates: lambda speech: speech)
    recording = torch.zeros(1, 16_000), 24_000, ""
    asked = {
        "zero-shot": front.frontend_zero_shot(WRITTEN, SAID, *recording),
        "cross-lingual": front.frontend_cross_lingual(WRITTEN, *recording),
        "instruct": front.frontend_instruct2(WRITTEN, TOLD, *recording),
    }
    return {mode: given(model, inputs) for mode, inputs in asked.items()}


def given(model: Qwen2LM, inputs: dict[str, torch.Tensor]) -> dict:
    """Of one mode: the rows before the first code, and of how many codes speech is at least and at most."""
    seen: list = []
    none, zero = torch.zeros(1, 0, dtype=torch.long), torch.tensor([0])
    wanted = {
        "text": inputs["text"], "text_len": inputs["text_len"],
        "prompt_text": inputs.get("prompt_text", none), "prompt_text_len": inputs.get("prompt_text_len", zero),
        "prompt_speech_token": inputs.get("llm_prompt_speech_token", none),
        "prompt_speech_token_len": inputs.get("llm_prompt_speech_token_len", zero), "embedding": inputs["llm_embedding"],
    }  # fmt: skip
    model.inference_wrapper = lambda lm_input, sampling, least, most, uuid: seen.extend((lm_input[0], least, most)) or ()
    list(model.inference(**wanted))
    del model.inference_wrapper
    table = torch.cat((model.llm.model.model.embed_tokens.weight, model.speech_embedding.weight, model.llm_embedding.weight))
    same = (seen[0][:, None] == table).all(2)
    assert (same.sum(1) == 1).all()
    return {"rows": same.int().argmax(1).tolist(), "least": seen[1], "most": seen[2]}


def scores(model: Qwen2LM, marks: torch.Tensor, texts: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    inputs = torch.cat((marks[:1], texts, marks[1:], model.speech_embedding(codes)))[None]
    hidden, _ = model.llm(inputs, torch.tensor([inputs.shape[1]]))
    return model.llm_decoder(hidden)[0]
