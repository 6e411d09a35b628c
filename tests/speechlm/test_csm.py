"""CSM against its oracle, and what is its own: turns, the end, recordings. The rest is in `test_families`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.toy import Bench
from tests.speechlm.families import tiny_csm
from tests.tiny import GOLDEN, noise, write
from voxrtc.speechlm.base import Clip, InvalidRequest, Placement, Prompt, Turn, Utterance
from voxrtc.speechlm.csm.checkpoint import INDEX
from voxrtc.speechlm.csm.config import csm_config
from voxrtc.speechlm.csm.model import FRAMES, OWN, TEXT_TOKENS, Csm
from voxrtc.speechlm.layers.attention import DenseCausal, pairs_from_halves
from voxrtc.speechlm.weights import WeightsError, read_folder

PROMPTS = json.loads((GOLDEN / "csm" / "prompts.json").read_text())
AUDIO, AUDIO_END = 128_002, 128_003  # in the oracle's ids
CLIP = Clip(noise(6 * 1920) / 4, PROMPTS[0]["text"])
PART = slice(None, None, 13)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write("csm", tmp_path_factory.mktemp("csm"))


@pytest.fixture(scope="module")
def csm(folder: Path) -> Csm:
    return tiny_csm(folder)


@pytest.fixture(scope="module")
def golden() -> dict[str, torch.Tensor]:
    return load_file(GOLDEN / "csm" / "golden.safetensors")


def after(csm: Csm) -> Utterance:
    """What the oracle was asked to say after the recording."""
    return Utterance(PROMPTS[1]["text"], "0", csm.clone(CLIP))


@pytest.mark.parametrize("said", PROMPTS, ids=lambda said: said["text"][:12])
def test_prompts_are_the_oracles(csm: Csm, said: dict) -> None:
    assert csm.writer.ids(said["text"], said["speaker"]) == said["ids"]


def test_a_recording_stands_where_the_oracle_puts_it(csm: Csm, golden: dict[str, torch.Tensor]) -> None:
    ids, written = golden["ids"], csm.preprocess(after(csm)).data
    frames = (ids == AUDIO) | (ids == AUDIO_END)
    assert torch.equal(written.text, torch.where(frames, -1, ids))
    assert not written.codes[ids == AUDIO_END].any() and written.codes[ids == AUDIO].any(1).all()


def test_scores_of_the_backbone_are_the_oracles(csm: Csm, golden: dict[str, torch.Tensor]) -> None:
    written, network = csm.preprocess(after(csm)).data, csm.network
    with torch.inference_mode():
        hidden = network(written.text, written.codes, torch.arange(len(written)), Sequence())
        scores = network.head(hidden)
    assert golden["scores"].std() > 1
    assert (scores[:, PART] - golden["scores"]).abs().max() <= 1e-4
    assert (hidden[-1] - golden["hidden"]).abs().max() <= 1e-4


class Sequence:
    """Attention over one sequence, given as rows."""

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return DenseCausal().attend(layer, q[None], k[None], v[None])[0]


class Given:
    """Chooses the codes of a given frame, and notes the scores."""

    def __init__(self, frame: torch.Tensor) -> None:
        self.frame, self.scores = frame, []

    def __call__(self, logits: torch.Tensor, book: int, recent: torch.Tensor | None = None) -> torch.Tensor:
        self.scores.append(logits[0])
        return self.frame[book].expand(len(logits))

    def normal(self, width: int) -> torch.Tensor:
        raise AssertionError("codes need no noise")


def test_scores_of_the_depth_decoder_are_the_oracles(csm: Csm, golden: dict[str, torch.Tensor]) -> None:
    sampler = Given(golden["frame"])
    with torch.inference_mode():
        frame = csm.network.frame(golden["hidden"][None], sampler, torch.full((1, 1, 32), -1))
    assert torch.equal(frame[0], golden["frame"])
    assert golden["depth_scores"].std() > 0.9
    assert (torch.stack(sampler.scores[1:])[:, PART] - golden["depth_scores"]).abs().max() <= 1e-4


@pytest.mark.parametrize(("kind", "page_size"), [("alone", 16), ("after", 4096)])
def test_greedy_speech_is_the_oracles(
    csm: Csm, golden: dict[str, torch.Tensor], kind: str, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 frames of 32 codes, through the engine, beside another stream."""
    utterance = after(csm) if kind == "after" else Utterance(PROMPTS[1]["text"], "0")
    prompts = {
        utterance.text: replace(csm.preprocess(utterance), max_frames=64),
        "Somebody else.": replace(csm.preprocess(Utterance("Somebody else.")), max_frames=5),
    }
    monkeypatch.setattr(csm, "preprocess", lambda asked: prompts[asked.text])
    bench = Bench(model=csm, slots=2, page_size=page_size)
    bench.speak("company", "Somebody else.", seed=1)
    bench.step()
    bench.speak("a", PROMPTS[1]["text"], "0", temperature=0.0)
    bench.run()
    assert torch.equal(torch.tensor(bench.codes["a"]), golden[f"greedy.{kind}"])


def test_only_a_frame_of_zeros_is_the_end_and_it_makes_no_sound(csm: Csm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first code alone may well be 0: that is no reason to stop (as some do)."""
    frame, made = csm.network.frame, []

    def ends(*args: object) -> torch.Tensor:
        made.append(frame(*args))
        if len(made) < 5:
            return torch.cat([torch.zeros_like(made[-1][:, :1]), made[-1][:, 1:].clamp(min=1)], dim=1)
        return torch.zeros_like(made[-1])

    monkeypatch.setattr(csm.network, "frame", ends)
    bench = Bench(model=csm)
    bench.speak("a", "Hello.", seed=1)
    bench.run()
    codes = bench.codes["a"]
    assert len(codes) == 5 and [codes[i][0] for i in range(5)] == [0] * 5 and codes[-1] == [0] * 32
    assert sum(len(reply.pcm) for reply in bench.replies["a"][:-1]) == 2 * 4 * 1920  # type: ignore[union-attr]


def test_the_default_voice_is_the_first_speaker(csm: Csm) -> None:
    default, first, last = (csm.preprocess(Utterance("Hello.", voice)).data.text.tolist() for voice in ("default", "0", "7"))
    assert default == first != last


def test_a_text_cannot_write_the_prompts_marks(csm: Csm) -> None:
    ids = csm.writer.ids("a<|AUDIO|>b<|end_of_text|>", "0")
    assert AUDIO not in ids and ids.count(128_001) == 1


def test_every_piece_fits_its_prompt(csm: Csm) -> None:
    text = "The train leaves at ten, or so they say. " * 30 + "x" * 500 + " 你好，世界" * 60
    pieces = csm.split(text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    for piece in pieces:
        prompt = csm.preprocess(Utterance(piece, "7"))
        assert prompt.length <= OWN and csm.writer.count(piece) <= TEXT_TOKENS and prompt.max_frames <= FRAMES


def turn(text: str, frames: int, seed: int = 0) -> Turn:
    return Turn(text, torch.randint(1, 2048, (frames, 32), generator=torch.Generator().manual_seed(seed)))


def test_earlier_turns_come_first_and_end_with_zeros_once(csm: Csm) -> None:
    limited, ended = turn("one", 3), turn("two", 4, seed=1)
    ended.frames[-1] = 0
    written = csm.preprocess(Utterance("three", "1", before=(limited, ended))).data
    ids = [csm.writer.ids(text, "1") for text in ("one", "two", "three")]
    assert written.text.tolist() == [*ids[0], *[-1] * 4, *ids[1], *[-1] * 4, *ids[2]]
    heard = written.codes[written.text < 0]
    zeros = torch.zeros(1, 32, dtype=torch.long)
    assert torch.equal(heard, torch.cat([limited.frames, zeros, ended.frames]))


def test_the_oldest_turns_make_room_and_the_recording_stays(csm: Csm) -> None:
    recording = csm.clone(CLIP)
    before = tuple(turn(f"turn {i}", 300, seed=i) for i in range(8))
    prompt = csm.preprocess(Utterance("And now?", "1", recording, before))
    assert prompt.length + prompt.max_frames <= csm.cache.positions < prompt.length + prompt.max_frames + 320
    heard = prompt.data.codes[prompt.data.text < 0]
    kept = (len(heard) - 7) // 301
    assert 3 <= kept < 8 and len(heard) == 7 + 301 * kept
    assert torch.equal(heard[:6], recording.frames) and torch.equal(heard[-301:-1], before[-1].frames)


def test_later_pieces_are_spoken_after_the_earlier_ones(csm: Csm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the engine, which keeps what was said."""
    prompts = []
    preprocess = csm.preprocess

    def noted(utterance: Utterance) -> Prompt:
        prompts.append(replace(preprocess(utterance), max_frames=3))
        return prompts[-1]

    monkeypatch.setattr(csm, "preprocess", noted)
    bench = Bench(model=csm, page_size=64)
    bench.speak("a", "\n".join(["The train leaves at ten.", "Would you like some tea?", "It is still warm."]), seed=4)
    bench.run()
    zeros = [[0] * 32]
    codes = bench.codes["a"]
    said = [*codes[:3], *zeros, *codes[3:6], *zeros]
    heard = [prompt.data.codes[prompt.data.text < 0].tolist() for prompt in prompts]
    assert heard == [[], said[:4], said]


@pytest.mark.parametrize(
    ("clip", "told"),
    [
        (Clip(CLIP.samples, " "), "text"),
        (Clip(CLIP.samples[:0], "Hello."), "0 seconds"),
        (Clip(torch.zeros(24_000 * 61), "Hello."), "61 seconds"),
        (Clip(CLIP.samples, "over and over " * 500), "too long"),
    ],
)
def test_what_cannot_be_imitated_is_told(csm: Csm, clip: Clip, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        csm.clone(clip)


def rewritten(folder: Path, out: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """The tiny checkpoint in one file, changed."""
    tensors = read_folder(folder, index=INDEX)
    change(tensors)
    save_file(tensors, out / "model.safetensors")
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(folder / name, out)
    return out


def scores(csm: Csm) -> torch.Tensor:
    """Of something, of all books."""
    sampler = Given(torch.arange(32))
    with torch.inference_mode():
        text, codes = torch.tensor([5, -1]), torch.arange(64).view(2, 32)
        hidden = csm.network(text, codes, torch.arange(2), Sequence())
        csm.network.frame(hidden[-1:], sampler, torch.full((1, 1, 32), -1))
    return torch.stack(sampler.scores)


TABLE, TIED = "depth_decoder.model.embed_tokens.weight", "backbone_model.embed_tokens.embed_audio_tokens.weight"


def test_the_shared_table_is_read_under_either_name(csm: Csm, folder: Path, tmp_path: Path) -> None:
    def rename(tensors: dict[str, torch.Tensor]) -> None:
        tensors[TIED] = tensors.pop(TABLE)

    assert torch.equal(scores(tiny_csm(rewritten(folder, tmp_path, rename))), scores(csm))

    def twice(tensors: dict[str, torch.Tensor]) -> None:
        tensors[TIED] = tensors[TABLE].clone()

    assert torch.equal(scores(tiny_csm(rewritten(folder, tmp_path, twice))), scores(csm))


def test_what_sesames_repository_has_beside_the_shards_does_not_matter(csm: Csm, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    save_file({"something": torch.zeros(1)}, tmp_path / "model.safetensors")
    assert torch.equal(scores(tiny_csm(tmp_path)), scores(csm))


def test_shards_are_read_under_their_usual_name(csm: Csm, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / INDEX).rename(tmp_path / "model.safetensors.index.json")
    assert torch.equal(scores(tiny_csm(tmp_path)), scores(csm))


def to_sesame(tensors: dict[str, torch.Tensor]) -> None:
    """Torchtune's names and rotary pairs, without Mimi; written down independently of the loader."""
    for name in list(tensors):
        tensor = tensors.pop(name)
        if name.startswith("codec_model."):
            continue
        if "q_proj" in name or "k_proj" in name:
            tensor = pairs_from_halves(tensor, 8)
        name = name.replace("depth_decoder.model.layers", "decoder.layers").replace("backbone_model", "backbone")
        name = name.replace("self_attn.o_proj", "attn.output_proj").replace("self_attn", "attn")
        name = name.replace("gate_proj", "w1").replace("down_proj", "w2").replace("up_proj", "w3")
        name = name.replace("input_layernorm.weight", "sa_norm.scale").replace(
            "post_attention_layernorm.weight", "mlp_norm.scale"
        )
        whole = {
            "depth_decoder.model.norm.weight": "decoder.norm.scale", "backbone.norm.weight": "backbone.norm.scale",
            "embed_text_tokens.weight": "text_embeddings.weight", TABLE: "audio_embeddings.weight",
            "lm_head.weight": "codebook0_head.weight", "depth_decoder.codebooks_head.weight": "audio_head",
            "depth_decoder.model.inputs_embeds_projector.weight": "projection.weight",
        }  # fmt: skip
        tensors[whole.get(name, name)] = tensor


def test_sesames_own_file_is_the_same_model(csm: Csm, folder: Path, tmp_path: Path) -> None:
    write("mimi", tmp_path / "mimi")
    own = tiny_csm(rewritten(folder, tmp_path, to_sesame))
    torch.testing.assert_close(scores(own), scores(csm), rtol=0, atol=1e-5)
    state = own.detokenizer.new_state(0)
    assert len(own.detokenizer.decode([turn("", 2).frames], [state], [True])[0]) == 2 * 1920


def test_sesames_own_configuration_is_that_of_the_released_model() -> None:
    own = csm_config({
        "audio_num_codebooks": 32, "audio_vocab_size": 2051, "backbone_flavor": "llama-1B", "decoder_flavor": "llama-100M",
        "text_vocab_size": 128_256,
    })  # fmt: skip
    assert (own.backbone.layers, own.backbone.dim, own.backbone.positions) == (16, 2048, 2048)
    assert (own.depth.dim, own.depth.head_dim, own.codes, own.codec.codec.samples_per_frame) == (1024, 128, 2048, 1920)
    with pytest.raises(WeightsError, match="llama-8B"):
        csm_config({"audio_num_codebooks": 32, "backbone_flavor": "llama-8B"})


def test_a_configuration_of_older_transformers_is_the_same(folder: Path) -> None:
    """As in Sesame's repository: rotary settings by other names, Mimi's frame rate, and Sesame's own lines among the others."""
    new = json.loads((folder / "config.json").read_text())
    old = json.loads(json.dumps(new)) | {"backbone_flavor": "llama-1B", "audio_num_codebooks": 32}
    for part in (old, old["depth_decoder_config"], old["codec_config"]):
        rope = part.pop("rope_parameters")
        part["rope_theta"] = rope.pop("rope_theta")
        part["rope_scaling"] = rope if rope["rope_type"] == "llama3" else None
    del old["codec_config"]["_frame_rate"]
    old["codec_config"]["frame_rate"] = 12.5
    assert csm_config(old) == csm_config(new) and csm_config(new).depth.rope_scaling


def test_it_can_be_had_in_half_precision(csm: Csm, folder: Path) -> None:
    half = tiny_csm(folder, Placement(dtype=torch.bfloat16))
    assert half.network.codes.weight.dtype == torch.bfloat16 and half.network.dtype == torch.float32
    assert half.codec.quantizer.entries.dtype == torch.float32
    assert 0 < (scores(half) - scores(csm)).abs().max() < 0.3
    bench = Bench(model=half)
    bench.speak("a", "Yes.", seed=1)
    for _ in range(4):
        bench.step()
    assert len(bench.codes["a"]) >= 2


def test_a_broken_checkpoint_is_told_by_name(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    for change, told in (
        ({"tie_codebooks_embeddings": False}, "share one table"),
        ({"num_codebooks": 31}, "disagree"),
        ({"model_type": "llama"}, "wanted csm"),
        ({"text_vocab_size": None}, "text_vocab_size"),
    ):
        changed = {key: value for key, value in {**config, **change}.items() if value is not None}
        with pytest.raises(WeightsError, match=told):
            csm_config(changed)
    for name, told in (
        ("lm_head.weight", r"missing lm_head\.weight"),
        ("depth_decoder.codebooks_head.weight", r"missing depth_decoder\.codebooks_head\.weight\.0"),
        ("codec_model.upsample.conv.weight", r"missing upsample\.convtr\.convtr\.weight"),
    ):
        with pytest.raises(WeightsError, match=told):
            tiny_csm(rewritten(folder, tmp_path, lambda tensors, name=name: tensors.pop(name)))
    with pytest.raises(WeightsError, match="surplus extra"):
        tiny_csm(rewritten(folder, tmp_path, lambda tensors: tensors.update(extra=torch.zeros(1))))
    rewritten(folder, tmp_path, lambda tensors: None)
    tokenizer = (tmp_path / "tokenizer.json").read_text()
    (tmp_path / "tokenizer.json").write_text(tokenizer.replace("<|begin_of_text|>", "<|begin|>"))
    with pytest.raises(WeightsError, match="not the tokenizer"):
        tiny_csm(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(WeightsError, match=r"tokenizer\.json cannot be read"):
        tiny_csm(tmp_path)
