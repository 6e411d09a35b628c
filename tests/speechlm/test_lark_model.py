"""The shipped Lark in the engine: the same speech alone and in company, and an end to everything it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.engine.toy import Bench
from voxrtc.messages import Cancel, Chunk, Ended
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import InvalidRequest, SpeechLM
from voxrtc.speechlm.lark.model import Lark, LarkStates
from voxrtc.speechlm.weights import WeightsError

TEXTS = ["Hello there.", "The train to the coast leaves at ten.", "Yes.", "Would you like some tea? It is still warm."]
RANDOM = {"temperature": 0.7, "top_k": 20, "seed": 11}


@pytest.fixture(scope="module")
def lark() -> SpeechLM:
    return registry.load(ROOT / "models", "lark")[1]


def spoken(bench: Bench, stream: str) -> np.ndarray:
    parts = [reply.pcm for reply in bench.replies[stream] if isinstance(reply, Chunk)]
    return np.frombuffer(b"".join(parts), "<i2").astype(np.float32) / 32768


@pytest.mark.parametrize("sampling", [{}, RANDOM])
def test_tokens_and_sound_do_not_depend_on_company(lark: SpeechLM, sampling: dict) -> None:
    alone = Bench(model=lark)
    for text in TEXTS:
        alone.speak(text, text, **{"seed": 5, **sampling})
        alone.run()
    together = Bench(slots=3, page_size=64, model=lark)
    for text in TEXTS:
        together.speak(text, text, **{"seed": 5, **sampling})
        for _ in range(7):
            together.step()
    together.speak("cancelled", "Nobody will hear the end of this sentence.")
    for _ in range(60):
        together.step()
    together.send(Cancel(stream="cancelled"), "cancelled")
    together.run()
    for text in TEXTS:
        assert together.codes[text] == alone.codes[text]
        assert isinstance(together.replies[text][-1], Ended)
        assert len(spoken(together, text)) == 600 * len(together.codes[text])
        assert np.abs(spoken(together, text) - spoken(alone, text)).max() <= 2e-4


def test_a_prompt_in_parts_is_the_prompt_in_one(lark: SpeechLM, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = []
    for budget in (512, 5):
        monkeypatch.setattr("voxrtc.engine.snapshot.PREFILL_TOKENS", budget)
        bench = Bench(model=lark)
        bench.speak("a", TEXTS[1])
        bench.run()
        codes.append(bench.codes["a"])
    assert codes[0] == codes[1]


def test_seeds_change_what_is_sampled(lark: SpeechLM) -> None:
    bench = Bench(model=lark)
    for seed in (1, 2):
        bench.speak(str(seed), TEXTS[1], **{**RANDOM, "seed": seed})
    bench.run()
    assert bench.codes["1"] != bench.codes["2"]


class Level(nn.Module):
    """A head without opinion: a tie, which greedy choice gives to the first code, and that is to stay."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(z), 2)


def test_every_phoneme_ends_in_time_and_keeps_its_units() -> None:
    """Whatever the network wants: here it never wants to go on."""
    lark = registry.load(ROOT / "models", "lark")[1]
    assert isinstance(lark, Lark)
    lark.network.heads[0] = Level()
    bench = Bench(model=lark)
    bench.speak("a", "Yes.")
    bench.run()
    codes = np.array(bench.codes["a"])
    prompt = lark.preprocess("Yes.", "default")
    assert len(codes) <= prompt.max_frames
    assert codes[:, 0].sum() == len(prompt.data), "the pointer passed every phoneme, then it stopped"
    ends = np.flatnonzero(codes[:, 0])
    assert (np.diff(ends, prepend=-1) == lark.network.config.max_elapsed + 1).all()
    for start, end in zip(np.append(0, ends[:-1] + 1), ends, strict=True):
        assert (codes[start : end + 1, 1:5] == codes[start, 1:5]).all()


def test_states_of_a_slot_start_afresh(lark: SpeechLM) -> None:
    states = lark.new_states(2)
    assert isinstance(states, LarkStates)
    prompt = lark.preprocess("Good morning.", "default")
    states.pointer[1], states.elapsed[1] = 7, 3
    states.history[1] = 5
    lark.admit(states, 1, prompt)
    assert (states.pointer[1], states.elapsed[1], states.length[1]) == (0, 0, prompt.length - 1)
    assert (states.history[1] == -1).all() and (states.phonemes[0] == -1).all()


def test_text_that_cannot_be_spoken_is_refused(lark: SpeechLM) -> None:
    for text in ("", " \n", "你好"):
        with pytest.raises(InvalidRequest):
            lark.split(text)


def test_a_broken_checkpoint_is_told_by_name(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = ROOT / "models" / "lark"
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    wrong = {**tensors, "lm.codes.weight": torch.zeros(3, 3), "lm.extra": torch.zeros(1)}
    del wrong["lm.window.weight"]
    save_file(wrong, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"codes.weight is \[3, 3\].*missing window.weight.*surplus extra"):
        Lark.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"half a file")
    with pytest.raises(WeightsError, match="Fetch it again"):
        Lark.load(tmp_path)
