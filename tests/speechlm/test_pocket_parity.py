"""Pocket-TTS against what the `pocket-tts` package did with the same files (made by tests/parity/pocket.py)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests import tiny
from tests.speechlm.families import POCKETS
from voxrtc.engine.worker import Task, Worker
from voxrtc.messages.engine import Sampling
from voxrtc.speechlm.base import Utterance
from voxrtc.speechlm.pocket.model import Pocket, load_detokenizer
from voxrtc.speechlm.pocket.voice import clone, end_on_pause
from voxrtc.speechlm.weights import WeightsError

GOLDEN = tiny.GOLDEN / "pocket"
TOLERANCE = 1e-4


class Golden:
    """One tiny model, loaded by us, and what the package made of it."""

    def __init__(self, name: str) -> None:
        self.folder = GOLDEN / "languages" / name
        self.model = Pocket.load(self.folder)
        self.arrays = load_file(GOLDEN / f"{name}.safetensors")
        self.texts = json.loads((GOLDEN / f"{name}.json").read_text())

    def __getitem__(self, name: str) -> Tensor:
        return self.arrays[name]


@pytest.fixture(scope="module", params=POCKETS)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)


def difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max())


class Given:
    """A sampler for slot 1 whose noise was drawn before."""

    rows = torch.tensor([1])

    def __init__(self, noise: Tensor) -> None:
        self.left = iter(noise)

    def normal(self, width: int) -> Tensor:
        return next(self.left)[None, :width]

    def advance(self) -> None:
        """It does by itself."""


def latents(model: Pocket, text: str, noise: Given, most: int | None = None) -> tuple[Tensor, Tensor]:
    """Hidden states and latents of a piece with the first voice, through the worker's paged cache, at most `most` frames."""
    worker = Worker(model, slots=2, page_size=16)
    prompt = model.preprocess(Utterance(text, "someone"))
    seen: list[Tensor] = []
    sample = model.sample

    def spy(hidden: Tensor, *rest) -> object:  # type: ignore[no-untyped-def]
        seen.append(hidden)
        return sample(hidden, *rest)

    worker.admit(1, prompt, Sampling(), seed=0, step=0)
    worker.sampling.sampler = lambda *_: noise  # type: ignore[assignment, return-value]
    start, count, made, last = prompt.known, prompt.length - prompt.known, [], False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "sample", spy)
        while len(made) < (most or prompt.max_frames) and (most or not last):
            [result] = worker.launch([Task(1, start, count, samples=True)]).results()
            assert isinstance(result, tuple), result
            made.append(result[0])
            last, start, count = result[1], start + count, 1
    return torch.cat(seen), torch.stack(made)


def test_prompts_are_the_packages(golden: Golden) -> None:
    texts = json.loads((GOLDEN / "texts.json").read_text())
    assert len(texts) == 20
    ours = [[golden.model.writer.ids(piece) for piece in golden.model.split(text)] for text in texts]
    assert ours == golden.texts["prompts"]


def test_hidden_states_and_latents(golden: Golden) -> None:
    hidden, made = latents(golden.model, golden.texts["text"], Given(golden["noise"]), most=64)
    assert difference(hidden, golden["hidden"]) <= TOLERANCE
    assert difference(made, golden["latents"]) <= TOLERANCE
    assert difference(golden.model.network.eos(hidden)[:, 0], golden["ends"]) <= TOLERANCE


def test_sound(golden: Golden) -> None:
    detokenizer, frames = golden.model.detokenizer, golden["latents"][:8]
    sound = detokenizer.decode([frames], [detokenizer.new_state(0)], [True])[0]
    expected = golden["sound"].clone()
    expected[:120] *= torch.linspace(0, 1, 120)
    assert difference(sound, expected) <= TOLERANCE


def test_a_text_of_several_pieces(golden: Golden) -> None:
    """Ends where the package ended, piece by piece, and sounds like it."""
    noise, sounds, detokenizer = Given(golden["spoken_noise"]), [], golden.model.detokenizer
    pieces = golden.model.split(golden.texts["spoken"])
    assert len(pieces) > 1
    for piece in pieces:
        _, frames = latents(golden.model, piece, noise)
        sounds += detokenizer.decode([frames], [detokenizer.new_state(0)], [True])
    assert next(noise.left, None) is None
    assert difference(torch.cat(sounds)[::97], golden["spoken"]) <= TOLERANCE


def test_a_cloned_voice(golden: Golden) -> None:
    model = golden.model
    made = clone(end_on_pause(golden["clip"], 24_000), model.encoder, model.network)
    read = model.prefix("someone")
    assert difference(made.keys, read.keys) <= TOLERANCE and difference(made.values, read.values) <= TOLERANCE


@pytest.fixture(scope="module")
def loaded() -> dict[str, Golden]:
    return {name: Golden(name) for name in POCKETS}


def test_a_long_stream_does_not_drift(loaded: dict[str, Golden]) -> None:
    """Past the end of the sliding buffers, one frame at a time."""
    golden = loaded["plain"]
    frames, detokenizer = golden["latents"].repeat(2, 1), golden.model.detokenizer
    state = detokenizer.new_state(0)
    streamed = [detokenizer.decode([frame[None]], [state], [False])[0] for frame in frames]
    [expected] = detokenizer.decode([frames], [detokenizer.new_state(0)], [True])
    assert difference(torch.cat(streamed), expected) <= TOLERANCE


def test_a_call_that_fails_moves_no_state(loaded: dict[str, Golden]) -> None:
    golden = loaded["drifting"]
    frames, detokenizer = golden["latents"], golden.model.detokenizer
    state, other = detokenizer.new_state(0), detokenizer.new_state(0)
    first = detokenizer.decode([frames[:3]], [state], [False])
    with pytest.raises(RuntimeError):
        detokenizer.decode([frames[3:5], torch.zeros(1, 99)], [state, other], [False, False])
    rest = detokenizer.decode([frames[3:8]], [state], [True])
    [expected] = detokenizer.decode([frames[:8]], [other], [True])
    assert difference(torch.cat(first + rest), expected) <= TOLERANCE


@pytest.mark.parametrize("name", ["plain", "drifting"])
def test_a_broken_checkpoint_is_told_by_name(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(GOLDEN / "languages" / name, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["flow_lm.input_linear.weight"] = torch.zeros(3, 3)
    tensors["mimi.extra"] = torch.zeros(1)
    del tensors["mimi.decoder.model.0.conv.bias"], tensors["flow_lm.out_norm.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(WeightsError) as told:
        Pocket.load(folder)
    for fault in (
        "flow_lm.input_linear.weight is [3, 3], wanted [",
        "missing flow_lm.out_norm.weight",
        "missing mimi.decoder.model.0.conv.bias",
        "surplus mimi.extra",
    ):
        assert fault in str(told.value)
    assert str(told.value).count(";") == 3
    with pytest.raises(WeightsError, match=r"does not fit: missing mimi\.decoder\.model\.0\.conv\.bias$"):
        load_detokenizer(folder)


def test_missing_files_are_told_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    shutil.copytree(GOLDEN / "languages" / "plain", folder)
    for missing, told in (
        ("tokenizer.json", "tokenizer.json is missing"),
        ("model.safetensors", "model.safetensors is missing"),
        ("config.yaml", "“plain” is no released Pocket-TTS"),
    ):
        content = (folder / missing).read_bytes()
        (folder / missing).unlink()
        with pytest.raises(WeightsError, match=told):
            Pocket.load(folder)
        (folder / missing).write_bytes(content)
    shutil.rmtree(folder / "embeddings")
    with pytest.raises(WeightsError, match="no voices"):
        Pocket.load(folder)


def test_a_tokenizer_is_borrowed_where_that_is_known(tmp_path: Path) -> None:
    own, other = tmp_path / "languages" / "english_2026-10", tmp_path / "languages" / "english_2026-09"
    shutil.copytree(GOLDEN / "languages" / "plain", own)
    other.mkdir()
    shutil.move(own / "tokenizer.json", other)
    assert Pocket.load(own).split("Hello there.") == ["Hello there."]
    shutil.rmtree(other)
    with pytest.raises(WeightsError, match=r"english_2026-09/tokenizer.json is missing"):
        Pocket.load(own)


def test_another_models_voice_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    shutil.copytree(GOLDEN / "languages" / "plain", folder)
    odd = GOLDEN / "languages" / "drifting" / "embeddings" / "other.safetensors"
    shutil.copy(odd, folder / "embeddings" / "odd.safetensors")
    model = Pocket.load(folder)
    assert model.voices == ("default", "odd", "other", "someone")
    with pytest.raises(WeightsError, match="another model's voice"):
        model.prefix("odd")
    (folder / "embeddings" / "broken.safetensors").write_bytes(b"half a file")
    with pytest.raises(WeightsError, match=r"broken.safetensors is not a voice"):
        Pocket.load(folder)


def test_voices_of_any_length_and_of_older_files(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    shutil.copytree(GOLDEN / "languages" / "plain", folder)
    voice = load_file(folder / "embeddings" / "someone.safetensors")
    old, long = {}, {}
    for name, tensor in voice.items():
        layer, key = name.split("/")
        if key == "cache":
            old[name] = torch.cat([tensor, torch.full_like(tensor, torch.nan)], dim=2)  # room behind the end
            long[name] = tensor.repeat(1, 1, 200, 1, 1)
            long[f"{layer}/offset"] = torch.tensor([long[name].shape[2]])
            old[f"{layer}/current_end"] = torch.zeros(tensor.shape[2])
    for name, tensors in (("old", old), ("long", long)):
        save_file(tensors, folder / "embeddings" / f"{name}.safetensors")
    model = Pocket.load(folder)
    assert torch.equal(model.prefix("old").keys, model.prefix("someone").keys)
    assert len(model.prefix("long")) == 200 * len(model.prefix("someone")) > 376
    worker, prompt = Worker(model, slots=1), model.preprocess(Utterance("Yes.", "long"))
    worker.admit(0, prompt, Sampling(), seed=0, step=0)
    [result] = worker.launch([Task(0, prompt.known, prompt.length - prompt.known, True)]).results()
    assert isinstance(result, tuple) and result[0].isfinite().all()
