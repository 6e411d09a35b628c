"""Oracle of `speechlm.stepaudio2`: its prompts, spectrogram and counts in stepaudio2-minicpmo's copy; transformers' Qwen2.

The ear's own code is beside its weights and in no package. So what goes around Whisper's layers, which s3tokenizer has, is
written here once more, from `modeling_step_audio_2.py`: the mask, the average, the adaptor, and where what was heard comes in.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config, Qwen2Model

from tests.parity import bpe, stubs  # noqa: F401  before what it stands in for
from tests.parity.flow import filled
from tests.parity.listening import sound
from tests.parity.saving import write_json
from tests.tiny import manifest

from s3tokenizer.model import ResidualAttentionBlock  # isort: skip
from s3tokenizer.utils import make_non_pad_mask, mask_to_bias  # isort: skip
from stepaudio2.stepaudio2 import StepAudio2  # isort: skip
from stepaudio2.utils import compute_token_num, log_mel_spectrogram  # isort: skip

BOT, EOT, SPEAK, FIRST, CODES = 151_665, 151_666, 151_693, 151_696, 6561
MARKS = {
    "<|endoftext|>": 151_643, "<|BOT|>": BOT, "<|EOT|>": EOT, "<audio_start>": 151_688, "<audio_end>": 151_689,
    "<audio_patch>": 151_690, "<tts_start>": SPEAK, "<tts_end>": 151_694, "<tts_pad>": 151_695,
}  # fmt: skip
TEXTS = (
    "You are a helpful assistant.", "What is that?", "The train to the coast leaves at ten.", "你好，世界。 🙂 1234",
    "cafe\u0301 NAÏVE  two  blanks\nand a line\n\n", "\nI'LL they've 3.14",
)  # fmt: skip
EAR = {
    "n_mels": 128, "n_audio_ctx": 1500, "n_audio_state": 128, "n_audio_head": 2, "n_audio_layer": 2, "n_codebook_size": 4096,
    "llm_dim": 32, "kernel_size": 3, "adapter_stride": 2,
}  # fmt: skip
LANGUAGE = {
    "vocab_size": 158_720, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_attention_groups": 2,
    "num_key_value_heads": 2, "intermediate_size": 48, "rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0, "rope_scaling": None,
    "max_position_embeddings": 16_384, "max_seq_len": 16_384, "eos_token_id": 151_643, "pad_token_id": 151_643,
}  # fmt: skip
SAMPLES = (20_800, 4_000, 4_080, 4_160, 321)  # of recordings that end in all ways that eight frames can
STEPS = 40
SHARD = 6_000_000  # bytes


class Encoder(nn.Module):
    """Whisper's, whose positions are learned and whose frames are averaged."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(128, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.positional_embedding = nn.Embedding(1500, width)
        self.blocks = nn.ModuleList(ResidualAttentionBlock(width, heads, use_sdpa=False) for _ in range(layers))
        self.after_norm = nn.LayerNorm(width)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        frames = mel.shape[2]
        mask = make_non_pad_mask(torch.tensor([frames - 2]), frames)[:, None, (frames + 1) % 2 :: 2]
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)
        x = x + self.positional_embedding.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x, mask_to_bias(mask, x.dtype)[:, None])
        return self.after_norm(F.avg_pool1d(x.transpose(1, 2), 2).transpose(1, 2))


class Adaptor(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.linear1, self.linear2 = nn.Linear(width, 2048), nn.Linear(2048, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return self.linear2(self.linear1(x).relu())


class Oracle(nn.Module):
    """Under the published names."""

    def __init__(self) -> None:
        super().__init__()
        shape = {key: value for key, value in LANGUAGE.items() if key not in ("num_attention_groups", "max_seq_len")}
        self.model = Qwen2Model(Qwen2Config(**shape))
        self.lm_head = nn.Linear(LANGUAGE["hidden_size"], LANGUAGE["vocab_size"], bias=False)
        self.encoder = Encoder(EAR["n_audio_state"], EAR["n_audio_head"], EAR["n_audio_layer"])
        self.adapter = Adaptor(EAR["n_audio_state"], EAR["llm_dim"])

    def hear(self, mel: torch.Tensor) -> torch.Tensor:
        """Spectrogram [128, frames] -> vectors [n, dim]."""
        return self.adapter(self.encoder(mel[None]))[0, : compute_token_num(mel.shape[1])]

    def scores(self, ids: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """Of what follows each token; the vectors stand behind the mark that a recording begins."""
        inputs = self.model.embed_tokens(ids)
        begin = int((ids == MARKS["<audio_start>"]).nonzero()[0]) + 1
        inputs[begin : begin + len(vectors)] = vectors
        return self.lm_head(self.model(inputs_embeds=inputs[None]).last_hidden_state)[0]


@torch.inference_mode()
def record(golden: Path) -> None:
    """What is heard of sounds; ids of turns; scores over a conversation with sound, and the STEPS likeliest codes after it."""
    keep = golden / "stepaudio2"
    keep.mkdir(parents=True, exist_ok=True)
    model = filled(Oracle())
    config = {"architectures": ["StepAudio2ForCausalLM"], "model_type": "step_audio_2"}
    write_json(keep / "config.json", {**config, "audio_encoder_config": EAR, "text_config": LANGUAGE})
    write_json(keep / "manifest.json", shards(model, keep))
    train_tokenizer().save(str(keep / "tokenizer.json"), pretty=False)
    tokenizer = AutoTokenizer.from_pretrained(keep)
    turns = [f"<|BOT|>{role}\n{text}<|EOT|>" for role, text in zip(("system", "human", "assistant") * 2, TEXTS, strict=True)]
    write_json(keep / "turns.json", [{"turn": turn, "ids": tokenizer(turn).input_ids} for turn in turns])
    heard = [log_mel_spectrogram(sound(16_000)[:samples]) for samples in SAMPLES]
    vectors = {f"heard.{samples}": model.hear(each) for samples, each in zip(SAMPLES, heard, strict=True)}
    told = {"mel": heard[0][:, ::3], **vectors, **conversation(model, tokenizer)}
    save_file({name: part.contiguous() for name, part in told.items()}, keep / "golden.safetensors")


def conversation(model: Oracle, tokenizer: PreTrainedTokenizerFast) -> dict[str, torch.Tensor]:
    """An instruction, a recording, an answer in words and codes, a typed question; and an answer in speech."""
    past = [40, FIRST + 7, FIRST + 6560, 41, FIRST + CODES, MARKS["<tts_pad>"], FIRST, MARKS["<tts_end>"]]
    messages = [
        {"role": "system", "content": TEXTS[0]},
        {"role": "user", "content": [{"type": "audio", "audio": sound(16_000)[:4080]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "<tts_start>"}, {"type": "token", "token": past}]},
        {"role": "user", "content": TEXTS[1]},
        {"role": "assistant", "content": "<tts_start>", "eot": False},
    ]
    with mock.patch("stepaudio2.stepaudio2.load_audio", lambda audio: audio):
        parts, [heard] = StepAudio2.apply_chat_template(mock.Mock(), messages)
    prompt = torch.tensor([id for part in parts for id in (part if isinstance(part, list) else tokenizer(part).input_ids)])
    ids, vectors = prompt, model.hear(heard)
    for _ in range(STEPS):
        likeliest = model.scores(ids, vectors)[-1, FIRST : FIRST + CODES].argmax()
        ids = torch.cat((ids, FIRST + likeliest[None]))
    scores = model.scores(ids, vectors)[:, FIRST : FIRST + CODES : 41]
    return {"past": torch.tensor(past), "prompt": prompt, "scores": scores, "said": ids[len(prompt) :]}


def shards(model: nn.Module, keep: Path) -> dict[str, dict[str, list]]:
    """The published layout: files in bfloat16, and a list of what is in which."""
    files: list[dict[str, torch.Tensor]] = [{}]
    for name, tensor in model.state_dict().items():
        tensor.copy_(tensor.bfloat16())  # and the oracle's own
        tensor = tensor.bfloat16()
        if files[-1] and sum(part.nbytes for part in files[-1].values()) + tensor.nbytes > SHARD:
            files.append({})
        files[-1][name] = tensor
    names = [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
    places = {key: name for name, tensors in zip(names, files, strict=True) for key in tensors}
    write_json(keep / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    return {name: manifest(tensors) for name, tensors in zip(names, files, strict=True)}


def train_tokenizer() -> Tokenizer:
    """With the marks at their real ids, as far as these are known. The tokens of codes are most of the file: tests add them."""
    return bpe.train(TEXTS, MARKS, {}, "$A")
