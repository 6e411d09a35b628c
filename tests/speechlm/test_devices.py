"""Every family on a device other than the CPU, a step ahead of what the host has read: the same speech.

The device is a pretended one (`tests.pretend`), which refuses what a GPU would, so this shows that no tensor is on the wrong
side and that no step makes the host wait. It says nothing of a GPU's kernels: see `tests/cuda`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.test_attention import by_flashinfer
from tests.engine.toy import Bench
from tests.pretend import Pretend, device, pretended
from tests.speechlm.families import MODELS, RECORDED, detokenizer_of
from tests.speechlm.test_families import RANDOM, TEXT, same, spoken
from tests.tape import Tape
from voxrtc.engine.attention import choose
from voxrtc.engine.sdpa_attention import SdpaAttention
from voxrtc.engine.sound_stage import Chunk, LocalStage
from voxrtc.engine.worker import Task, Worker
from voxrtc.messages.engine import Cancel, Ended
from voxrtc.messages.engine import Sampling as Settings
from voxrtc.speechlm.base import HOST, Clip, Detokenizer, InvalidRequest, Placement, SpeechLM, Utterance, Voice

TEXTS = {
    "Yes.": {"seed": 1, "temperature": 0.0},
    "Hello there.": {**RANDOM, "repetition_penalty": 1.3},
    "No, not at all.": {"seed": 3},
}


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(name)


@pytest.fixture(scope="module")
def model(name: str, folder: Path) -> SpeechLM:
    return MODELS[name](folder)


@pytest.fixture(scope="module")
def expected(model: SpeechLM) -> Bench:
    return said(Bench(slots=2, page_size=64, model=model))


def said(bench: Bench) -> Bench:
    """Three texts by two slots, and one that is cancelled."""
    for text, sampling in TEXTS.items():
        bench.speak(text, text, **sampling)
        bench.step()
    bench.speak("cancelled", TEXT)
    for _ in range(8):
        bench.step()
    bench.send(Cancel(stream="cancelled"), "cancelled")
    bench.run()
    return bench


def assert_same(model: SpeechLM, made: Bench, expected: Bench) -> None:
    for text in TEXTS:
        assert same(model, made.codes[text], expected.codes[text])
        assert made.replies[text][-1] == Ended(stream=text, reason="done", frames=len(expected.codes[text]))
        assert np.abs(spoken(made, text) - spoken(expected, text)).max() <= 2e-4


@pytest.mark.parametrize("lag", [1, 2])
def test_steps_that_begin_before_the_last_is_read_say_the_same(model: SpeechLM, expected: Bench, lag: int) -> None:
    bench = Bench(slots=2, page_size=64, model=model)
    bench.worker.lag = lag
    assert_same(model, said(bench), expected)


def watch(bench: Bench, mode: Pretend) -> None:
    """From now on no step may make the host wait."""
    launch = bench.worker.launch

    def watched(tasks: list[Task]) -> object:
        mode.waits.clear()
        step = launch(tasks)
        assert not mode.waits, "a step made the host wait"
        return step

    bench.worker.launch = watched  # type: ignore[assignment]


def test_on_another_device_it_says_the_same_and_no_step_waits(
    name: str, folder: Path, model: SpeechLM, expected: Bench
) -> None:
    with pretended() as mode:
        away = MODELS[name](folder, Placement(device()))
        bench = Bench(slots=2, page_size=64, model=away)
        assert bench.worker.lag == 1 and bench.worker.cache.keys.device == device()
        watch(bench, mode)
        assert_same(model, said(bench), expected)


def test_by_flashinfers_interface_it_says_the_same(name: str, folder: Path, model: SpeechLM, expected: Bench) -> None:
    """Decode steps of 3 streams are filled up to 4, and streams are preempted. The detokenizer is not where the rest is."""
    with pretended():
        away = MODELS[name](folder, Placement(device(), sound=HOST))
        assert away.device == device() and away.detokenizer.device == HOST
        bench = Bench(slots=4, page_size=64, model=away, backend=by_flashinfer, pages=-(-away.cache.positions // 64))
        assert_same(model, said(bench), expected)


def test_repeated_from_recordings_steps_say_the_same(name: str, folder: Path, model: SpeechLM, expected: Bench) -> None:
    """Every operation of a decode step is played again as it was recorded, with other streams' numbers in its place."""
    with pretended():
        away, tape = MODELS[name](folder, Placement(device())), Tape()
        backend = choose if name.startswith("pocket") else tape.backend  # in float32, as it stays, attention is torch's
        bench = Bench(slots=4, page_size=64, model=away, backend=backend, recorder=tape.record)
        for text, sampling in TEXTS.items():
            bench.speak(text, text, **sampling)
            bench.step()
        bench.run()
        assert_same(model, bench, expected)
    assert bench.worker.graphs and tape.played > bench.worker.graphs.count > 0 and not tape.impossible
    codec = bench.worker.sound.graphs
    assert (codec is not None) == name.startswith(RECORDED)
    assert codec is None or codec.repeats > codec.count > 0, "the detokenizer's passes, too"


def test_its_detokenizer_alone_sounds_the_same_elsewhere(name: str, folder: Path, model: SpeechLM, expected: Bench) -> None:
    """On another device, read without the rest of the model, and in a voice that it is told of."""
    codes, prompt = torch.tensor(expected.codes["Yes."]), model.preprocess(Utterance("Yes."))

    def sound(detokenizer: Detokenizer, voice: Voice) -> Tensor:
        stage = LocalStage(detokenizer, 1)
        state = stage.begin(voice, seed=1)
        parts = [stage.decode([Chunk(part, state, final)])[0] for part, final in ((codes[:4], False), (codes[4:], True))]
        return torch.cat(parts)

    voice = model.voice_of(prompt)
    with pretended():
        alone = detokenizer_of(name, folder, device())
        assert alone.device == device()
        made = sound(alone, voice and alone.voice_in(voice.parts))
    assert len(made) and (made - sound(model.detokenizer, voice)).abs().max() <= 2e-4


def first_hidden(model: SpeechLM, imitation: object = None) -> Tensor:
    """Hidden state after a prompt, on the host."""
    worker, seen = Worker(model, slots=1), []
    prompt, sample = model.preprocess(Utterance("Yes.", imitation=imitation)), model.sample
    worker.admit(0, prompt, Settings(temperature=0.0), seed=0, step=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "sample", lambda hidden, *rest: seen.append(hidden) or sample(hidden, *rest))
        [result] = worker.launch([Task(0, prompt.known, prompt.length - prompt.known, samples=True)]).results()
    assert isinstance(result, tuple), result
    return seen[0].float().cpu()


def test_a_recording_is_imitated_there_too(name: str, folder: Path, model: SpeechLM) -> None:
    clip = Clip(0.1 * torch.randn(24_000, generator=torch.Generator().manual_seed(0)), "What I said.")
    try:
        expected = first_hidden(model, model.clone(clip))
    except InvalidRequest:
        pytest.skip("it speaks with its own voices only")
    with pretended():
        away = MODELS[name](folder, Placement(device()))
        assert (first_hidden(away, away.clone(clip)) - expected).norm() <= 1e-4 * expected.norm()


def test_a_cpu_takes_bfloat16(name: str, folder: Path, model: SpeechLM) -> None:
    """By torch's attention, since ours is compiled for float32. Or a family stays in float32, as it must then say."""
    coarse = MODELS[name](folder, Placement(dtype=torch.bfloat16))
    worker = Worker(coarse, slots=1)
    assert worker.cache.keys.dtype == coarse.dtype
    assert isinstance(worker.attention, SdpaAttention) == (coarse.dtype == torch.bfloat16)
    fine, rough = first_hidden(model), first_hidden(coarse)
    assert (rough - fine).norm() <= 0.05 * fine.norm()
    bench = Bench(slots=2, page_size=64, model=coarse)
    bench.speak("Yes.", "Yes.", seed=1)
    bench.run()
    assert isinstance(bench.replies["Yes."][-1], Ended) and len(spoken(bench, "Yes."))
