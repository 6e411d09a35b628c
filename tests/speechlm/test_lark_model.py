"""What is the shipped Lark's own. What every family promises is in `test_families`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.engine.toy import Bench
from voxrtc.engine.worker import Task, Worker
from voxrtc.messages.engine import Sampling
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import InvalidRequest, Prompt, SpeechLM, Utterance
from voxrtc.speechlm.lark.model import Lark, LarkStates
from voxrtc.speechlm.lark.running import Script
from voxrtc.speechlm.weights import WeightsError


@pytest.fixture(scope="module")
def lark() -> SpeechLM:
    return registry.load(ROOT / "models", "lark")[1]


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
    prompt = lark.preprocess(Utterance("Yes."))
    assert len(codes) <= prompt.max_frames
    assert codes[:, 0].sum() == len(prompt.data.ids), "the pointer passed every phoneme, then it stopped"
    ends = np.flatnonzero(codes[:, 0])
    assert (np.diff(ends, prepend=-1) == lark.network.config.max_elapsed + 1).all()
    for start, end in zip(np.append(0, ends[:-1] + 1), ends, strict=True):
        assert (codes[start : end + 1, 1:5] == codes[start, 1:5]).all()


def test_states_of_a_slot_start_afresh(lark: SpeechLM) -> None:
    states = lark.new_states(2)
    assert isinstance(states, LarkStates)
    prompt = lark.preprocess(Utterance("Good morning."))
    states.pointer[1], states.elapsed[1] = 7, 3
    states.history[1] = 5
    lark.admit(states, 1, prompt)
    assert (states.pointer[1], states.elapsed[1], states.length[1]) == (0, 0, prompt.length - 1)
    assert (states.history[1] == -1).all() and (states.phonemes[0] == -1).all()


def test_steps_after_a_longest_sentences_last_frame_do_no_harm(lark: SpeechLM) -> None:
    """A device that is a step ahead runs them, and their frames are dropped. The pointer stays where its window is a window."""
    assert isinstance(lark, Lark)
    worker, ids = Worker(lark, slots=1), (1,) * lark.max_phonemes
    worker.admit(0, Prompt(len(ids) + 1, 9, Script(ids)), Sampling(), seed=0, step=0)
    worker.launch([Task(0, 0, len(ids) + 1, samples=True)])
    worker.states.pointer[0], worker.states.elapsed[0] = len(ids) - 1, lark.network.config.max_elapsed
    for position in range(len(ids) + 1, len(ids) + 4):
        [result] = worker.launch([Task(0, position, 1, samples=True)]).results()
        assert isinstance(result, tuple) and result[1], result
        worker.states.elapsed[0] = lark.network.config.max_elapsed


def test_text_that_cannot_be_spoken_is_refused(lark: SpeechLM) -> None:
    with pytest.raises(InvalidRequest):
        lark.split("你好")


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
