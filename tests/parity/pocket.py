"""Makes tests/golden/pocket: tiny random Pocket-TTS models as the `pocket-tts` package writes them, and what it does with them.

Everything is seeded, so the same versions make the same files. `tests/speechlm/test_pocket_parity.py` reads them.
"""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sentencepiece
import torch
import yaml
from pocket_tts.models import tts_model
from pocket_tts.models.model_state import export_model_state
from pocket_tts.models.text_chunking import prepare_text_prompt, split_into_best_sentences
from pocket_tts.models.tts_model import TTSModel
from pocket_tts.modules.stateful_module import init_states
from pocket_tts.utils.config import CONFIGS_DIR
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from voxrtc.speechlm.pocket.config import PocketConfig
from voxrtc.speechlm.pocket.released import released

VOCABULARY, FRAMES, DECODED = 160, 64, 8

TEXTS = [
    "Hello there.", "hello there", "Yes", "No!", "What is your name?", "I said \"stop\", and he stopped.",
    "The train to the coast leaves at ten, and it is never late.", "It costs 3.50 in the shop; online it is less.",
    "One. Two. Three. Four. Five. Six. Seven. Eight. Nine. Ten.", "Wait… really?", "An end with a comma,",
    "A colon:", "A dash -", "(In brackets)", "  Spaces   and\nlines\r\nare one space.  ", "Don’t worry about it.",
    "This is the first sentence of some that are long. This is the second sentence, which is long as well. "
    "And this is the third one, so that they do not all fit into one piece.",
    "When it rains in the town by the sea, the people who live in the old houses, and there are many of them, stay "
    "at home; the others, who have no time for that, put on coats, and go to work as they always do, he said.",
    "Good morning! How are you today? I am very well, thank you. It is a fine day.", "Café, naïve, zoë.",
]  # fmt: skip

SEANET = {
    "dimension": 16, "channels": 1, "n_filters": 2, "n_residual_layers": 1, "ratios": [6, 5, 4], "kernel_size": 7,
    "residual_kernel_size": 3, "last_kernel_size": 3, "dilation_base": 2, "pad_mode": "constant", "compress": 2,
}  # fmt: skip
CODEC = {
    "d_model": 16, "num_heads": 2, "num_layers": 2, "layer_scale": 0.01, "context": 40, "dim_feedforward": 32,
    "input_dimension": 16, "output_dimensions": [16],
}  # fmt: skip


def plain() -> dict[str, Any]:
    """In the shape of the 100M model."""
    return {
        "replace_characters": {"’": "'", "‘": "'"},
        "flow_lm": {
            "dtype": "float32", "insert_bos_before_voice": True, "flow": {"depth": 2, "dim": 16},
            "transformer": {"d_model": 32, "hidden_scale": 4, "max_period": 10000, "num_heads": 4, "num_layers": 2},
            "lookup_table": {"dim": 32, "n_bins": VOCABULARY, "tokenizer": "tokenizers", "tokenizer_path": "tokenizer.json"},
        },
        "mimi": {
            "dtype": "float32", "sample_rate": 24000, "channels": 1, "frame_rate": 12.5, "inner_dim": 8, "outer_dim": 16,
            "seanet": SEANET, "transformer": CODEC, "quantizer": {"dimension": 8, "output_dimension": 16},
        },
    }  # fmt: skip


def small(head: str) -> dict[str, Any]:
    """In the shape of the distilled models: shared keys, narrow heads and tables, another decoder."""
    config = plain()
    lm, mimi = config["flow_lm"], config["mimi"]
    lm["flow"] = {"depth": 1, "dim": 12, "type": head}
    lm["transformer"] = {"d_model": 20, "hidden_scale": 1, "max_period": 10000, "num_heads": 4, "num_layers": 3,
                         "attn_dim": 32, "num_kv_heads": 2, "dim_feedforward": 24}  # fmt: skip
    lm["lookup_table"] = {"dim": 20, "n_bins": VOCABULARY, "tokenizer": "sentencepiece",
                          "tokenizer_path": "tokenizer.model", "rank": 6}  # fmt: skip
    lm["z_dim"] = 10
    mimi["decoder_seanet"] = {**SEANET, "dimension": 12, "kernel_size": 3}
    mimi["decoder_transformer"] = {**CODEC, "d_model": 12, "num_layers": 3, "context": 20, "input_dimension": 12,
                                   "output_dimensions": [12]}  # fmt: skip
    mimi["outer_dim"] = mimi["quantizer"]["output_dimension"] = 12
    return {**config, "default_eos_threshold": -1.0, "remove_semicolons": True}


MODELS = {"plain": plain(), "drifting": small("drifting"), "pointwise": small("pointwise")}


class Noise:
    """Notes the noise that the package draws. It draws some also where nothing comes of it: for prompts, after the end."""

    def __init__(self) -> None:
        self.last = torch.empty(0)
        self._draw = torch.nn.init.normal_

    def __enter__(self) -> Noise:
        torch.nn.init.normal_ = self._note
        return self

    def __exit__(self, *error: object) -> None:
        torch.nn.init.normal_ = self._draw

    def _note(self, tensor: Tensor, mean: float, std: float) -> Tensor:
        self.last = self._draw(tensor, mean, std)[0].clone()
        return tensor


def train_tokenizer(folder: Path) -> None:
    """A sentencepiece model of the texts, and the same as a `tokenizer.json`."""
    with contextlib.chdir(folder):  # since the model's file tells the names of its own and of the corpus
        Path("corpus.txt").write_text("\n".join(TEXTS * 4).replace("’", "'"))
        sentencepiece.SentencePieceTrainer.train(
            input="corpus.txt", model_prefix="tokenizer", vocab_size=VOCABULARY,
            byte_fallback=False, normalization_rule_name="identity", num_threads=1, minloglevel=2,
        )  # fmt: skip
    for rest in ("corpus.txt", "tokenizer.vocab"):
        (folder / rest).unlink()
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    assert pieces.vocab_size() == VOCABULARY, pieces.vocab_size()
    vocabulary = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(VOCABULARY)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=pieces.unk_id()))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.save(str(folder / "tokenizer.json"))


def randomised(config: Path, seed: int) -> TTSModel:
    """A model of random weights: large enough for every part to matter, and latents small enough for what is fed back to
    be forgotten again, else the rounding of one frame would grow from frame to frame; samples about as loud as speech."""
    model = TTSModel.load_model(config=config)
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("freqs"):
                continue
            if name.endswith((".scale", "emb_std", "alpha")) or ("norm" in name and name.endswith("weight")):
                tensor.uniform_(0.5, 1.5)
            elif tensor.dim() > 1 and "embed" not in name:
                tensor.normal_(std=1.2 * tensor[0].numel() ** -0.5)
            else:
                tensor.normal_(std=0.3)
            if any(part in name for part in ("final_layer.linear", "input_linear", "mimi.decoder.model.11.conv")):
                tensor *= 0.2
    return model.eval()


def prompts(model: TTSModel) -> list[list[list[int]]]:
    """The token ids of each text's pieces."""
    tokenizer = model.flow_lm.conditioner.tokenizer
    rules = (
        model.pad_with_spaces_for_short_inputs,
        model.remove_semicolons,
        model.append_terminal_punctuation,
        model.capitalize_first_letter,
        model.replace_characters,
    )
    pieces = [split_into_best_sentences(tokenizer, text, 50, *rules) for text in TEXTS]
    return [[tokenizer(prepare_text_prompt(piece, *rules)[0])[0].tolist() for piece in text] for text in pieces]


@torch.no_grad()
def outputs(model: TTSModel, voice: dict, text: str) -> dict[str, Tensor]:
    """Hidden states, end scores and latents of FRAMES frames, and sound of the first."""
    hidden: list[Tensor] = []
    model.flow_lm.flow_net.register_forward_hook(lambda module, inputs, out: hidden.append(inputs[0].clone()))
    state = {name: {key: value.clone() for key, value in layer.items()} for name, layer in voice.items()}
    ids = model.flow_lm.conditioner.prepare(text)
    model._expand_kv_cache(state, model._flow_lm_current_end(state) + ids.shape[1] + FRAMES)
    model._run_flow_lm_and_increment_step(model_state=state, text_tokens=ids)
    hidden.clear()
    latent, latents, noise = torch.full((1, 1, model.flow_lm.ldim), torch.nan), [], []
    with Noise() as drawn:
        for _ in range(FRAMES):
            latent, _ = model._run_flow_lm_and_increment_step(model_state=state, backbone_input_latents=latent)
            latents.append(latent[0, 0])
            noise.append(drawn.last)
    model.flow_lm.flow_net._forward_hooks.clear()
    made = torch.stack(latents)
    states = init_states(model.mimi, batch_size=1, sequence_length=16 * DECODED)
    sound = model.mimi.decode_from_latent((made[:DECODED] * model.flow_lm.emb_std + model.flow_lm.emb_mean)[None], states)
    return {
        "noise": torch.stack(noise), "hidden": torch.cat(hidden), "latents": made, "sound": sound[0, 0],
        "ends": model.flow_lm.out_eos(torch.cat(hidden))[:, 0],
    }  # fmt: skip


def spoken(model: TTSModel, voice: dict, text: str) -> dict[str, Tensor]:
    """A text of several pieces from end to end; the noise of each latent, of the sound some samples."""
    noise: list[Tensor] = []
    with Noise() as drawn:

        class Queue(queue.Queue):
            """Notes the noise of each latent that goes to the decoder."""

            def put(self, item: Any) -> None:  # type: ignore[override]
                if isinstance(item, Tensor):
                    noise.append(drawn.last)
                super().put(item)

        tts_model.queue = SimpleNamespace(Queue=Queue, Empty=queue.Empty)
        model.max_decoder_frames_per_call = 1  # else it depends on timing how sums are rounded
        sound = model.generate_audio(voice, text)
    tts_model.queue = queue
    assert len(sound) == 1920 * len(noise)
    return {"spoken_noise": torch.stack(noise), "spoken": sound[::97].clone()}


def make(out: Path, name: str, config: dict[str, Any], seed: int, tokenizer: Path) -> None:
    folder = out / "languages" / name
    (folder / "embeddings").mkdir(parents=True)
    kind = Path(config["flow_lm"]["lookup_table"]["tokenizer_path"]).name
    shutil.copy(tokenizer / kind, folder / kind)
    config["flow_lm"]["lookup_table"]["tokenizer_path"] = str(folder / kind)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True))
    model = randomised(folder / "config.yaml", seed)
    clip = 0.5 * torch.randn(1, 5000) * torch.linspace(1, 0, 5000)
    voice = model.get_state_for_audio_prompt(clip)
    export_model_state(voice, folder / "embeddings" / "someone.safetensors")
    other = model.get_state_for_audio_prompt(torch.randn(1, 3000))
    export_model_state(other, folder / "embeddings" / "other.safetensors")
    golden = {"clip": clip[0], **outputs(model, voice, TEXTS[6])}
    with torch.no_grad():
        rise = model.eos_threshold - golden["ends"].quantile(0.9)  # then one frame in ten wishes to be the last
        model.flow_lm.out_eos.bias += rise
        golden["ends"] += rise
    golden |= spoken(model, voice, TEXTS[16])
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "model.safetensors")
    config["flow_lm"]["lookup_table"]["tokenizer_path"] = kind
    (folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True))
    save_file(golden, out / f"{name}.safetensors")
    (out / f"{name}.json").write_text(json.dumps({"text": TEXTS[6], "spoken": TEXTS[16], "prompts": prompts(model)}))


def check_released() -> None:
    """Our table of released checkpoints says what the package's configurations say."""
    for path in CONFIGS_DIR.glob("*.yaml"):
        values = released(path.stem)
        assert values is not None, path.stem
        ours, theirs = PocketConfig.parse(values), PocketConfig.parse(yaml.safe_load(path.read_text("utf-8")))
        assert vars(ours) | {"text": 0} == vars(theirs) | {"text": 0}, path.stem
        assert sorted(ours.text.replace) == sorted(theirs.text.replace), path.stem


def record(golden: Path) -> None:
    """The models, and what the package does with them."""
    assert version("pocket-tts") == "4.0.1"
    check_released()
    out = golden / "pocket"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as tokenizer:
        train_tokenizer(Path(tokenizer))
        for seed, (name, config) in enumerate(MODELS.items()):
            make(out, name, config, seed, Path(tokenizer))
    (out / "texts.json").write_text(json.dumps(TEXTS, ensure_ascii=False))
