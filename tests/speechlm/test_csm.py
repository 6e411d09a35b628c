"""CSM against its oracle, and what is its own: turns, the end, recordings. The rest is in `test_families`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.engine.toy import Bench
from tests.speechlm.families import tiny_csm
from tests.tiny import GOLDEN, noise, write
from voxrtc.speechlm.base import Clip, Utterance
from voxrtc.speechlm.csm.model import Csm
from voxrtc.speechlm.layers.attention import DenseCausal

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


@pytest.mark.parametrize("kind", ["alone", "after"])
@pytest.mark.parametrize("page_size", [16, 4096])
def test_greedy_speech_is_the_oracles(
    csm: Csm, golden: dict[str, torch.Tensor], kind: str, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 frames of 32 codes, through the engine, beside another stream."""
    utterance = after(csm) if kind == "after" else Utterance(PROMPTS[1]["text"], "0")
    prompt = csm.preprocess(utterance)
    monkeypatch.setattr(csm, "preprocess", lambda asked: prompt if asked.text == utterance.text else short(asked))
    short = Csm.preprocess.__get__(csm)
    bench = Bench(model=csm, slots=2, page_size=page_size)
    bench.speak("company", "Somebody else.", seed=1)
    bench.step()
    bench.speak("a", PROMPTS[1]["text"], "0", temperature=0.0)
    bench.run()
    assert torch.equal(torch.tensor(bench.codes["a"])[:64], golden[f"greedy.{kind}"])
