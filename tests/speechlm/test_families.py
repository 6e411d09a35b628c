"""What every family promises in the engine: the same speech alone and in company, and an end to everything it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toy import Bench
from tests.speechlm.families import MODELS, limit
from voxrtc.engine.kv_cache import Evicted
from voxrtc.engine.scheduler import Machine, StepPlan, StreamView, playout
from voxrtc.messages.engine import Cancel, Chunk, Ended, Sampling
from voxrtc.speechlm.base import Clip, Frames, InvalidRequest, Sampler, SpeechLM, Utterance

GREEDY = {"temperature": 0.0, "repetition_penalty": 1.0, "seed": 1}  # which also chooses noise
RANDOM = {"temperature": 0.7, "top_k": 20, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "seed": 11}
SPOKEN = {  # each with settings of its own
    "Hello there.": {"seed": 5},
    "The train to the coast leaves at ten.": GREEDY,
    "Yes.": RANDOM,
    "Would you like some tea?": {
        "temperature": 1.3, "top_k": 0, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.4, "seed": 2,
    },
}  # fmt: skip
TEXT = "The train to the coast leaves at ten."


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SpeechLM:
    return MODELS[request.param](tmp_path_factory.mktemp(request.param))


def alone(model: SpeechLM, text: str, **sampling) -> Bench:  # type: ignore[no-untyped-def]
    bench = Bench(model=model)
    bench.speak(text, text, **sampling)
    bench.run()
    return bench


@pytest.fixture(scope="module")
def single(model: SpeechLM) -> Callable[..., Bench]:
    """`alone`, once for each text and its settings."""
    return cache(partial(alone, model))


def spoken(bench: Bench, stream: str) -> np.ndarray:
    parts = [reply.pcm for reply in bench.replies[stream] if isinstance(reply, Chunk)]
    return np.frombuffer(b"".join(parts), "<i2").astype(np.float32) / 32768


def same(model: SpeechLM, made: list[list], expected: list[list]) -> bool:
    """The same frames; of latents, but for rounding."""
    a, b = np.array(made), np.array(expected)
    return a.shape == b.shape and np.abs(a - b).max() <= (0 if model.codebooks else 5e-5)


def samples(model: SpeechLM, frames: list[list]) -> int:
    """Of these frames, of which some may be silent."""
    sounding = sum(not model.silent(torch.tensor(frame)) for frame in frames)
    return sounding // model.detokenizer.group * model.detokenizer.samples_per_group


def test_it_clones_what_it_says_it_clones(model: SpeechLM) -> None:
    clip = Clip(torch.sin(torch.arange(2 * model.detokenizer.sample_rate) / 20) * 0.3, "La la la.")
    if model.clones:
        assert model.preprocess(Utterance("Yes.", imitation=model.clone(clip))).length
    else:
        with pytest.raises(InvalidRequest, match="Please choose one of"):
            model.clone(clip)


def test_tokens_and_sound_do_not_depend_on_company(model: SpeechLM, single: Callable[..., Bench]) -> None:
    """Streams of different settings, that join one by one, wait for a slot, and lose one of them on the way."""
    together = Bench(slots=3, page_size=64, model=model)
    for text, sampling in SPOKEN.items():
        together.speak(text, text, **sampling)
        for _ in range(7):
            together.step()
    together.speak("cancelled", "Nobody will hear the end of this sentence.")
    for _ in range(60):
        together.step()
    together.send(Cancel(stream="cancelled"), "cancelled")
    together.run()
    for text, sampling in SPOKEN.items():
        expected = single(text, **sampling)
        assert same(model, together.codes[text], expected.codes[text])
        assert together.replies[text][-1] == Ended(stream=text, reason="done", frames=len(expected.codes[text]))
        assert len(spoken(together, text)) == samples(model, together.codes[text])
        assert np.abs(spoken(together, text) - spoken(expected, text)).max() <= 2e-4


def test_a_preempted_stream_comes_back_exactly(
    model: SpeechLM, single: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, and what its pages held is overwritten meanwhile."""
    wanted = {2, 5}  # frames made

    def preempting(now: float, streams: Sequence[StreamView], machine: Machine) -> StepPlan:
        plan, made = playout(now, streams, machine), len(bench.codes.get(TEXT, ()))
        if made in wanted and TEXT in plan.decode:
            wanted.remove(made)
            decode = tuple(name for name in plan.decode if name != TEXT)
            return replace(plan, preempt=(*plan.preempt, TEXT), decode=decode)
        return plan

    bench = Bench(slots=2, page_size=32, model=model, policy=preempting)
    cache, evict = bench.worker.cache, bench.worker.cache.evict

    def overwritten(slot: int) -> Evicted:
        kept = evict(slot)
        cache.keys[:, cache._free], cache.values[:, cache._free] = 9.0, -9.0
        return kept

    monkeypatch.setattr(cache, "evict", overwritten)
    bench.speak("company", "Would you like some tea?", seed=9)
    bench.speak(TEXT, TEXT, seed=1)
    bench.run()
    expected = single(TEXT, seed=1)
    assert not wanted and bench.engine.counters.preempted == 2
    assert same(model, bench.codes[TEXT], expected.codes[TEXT])
    assert np.abs(spoken(bench, TEXT) - spoken(expected, TEXT)).max() <= 2e-4


def test_a_prompt_in_parts_is_the_prompt_in_one(
    model: SpeechLM, single: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = single(TEXT, seed=1)
    monkeypatch.setattr("voxrtc.engine.snapshot.PREFILL_TOKENS", 5)
    assert same(model, alone(model, TEXT, seed=1).codes[TEXT], whole.codes[TEXT])


def test_a_seed_is_one_speech(model: SpeechLM) -> None:
    first, again, other = (alone(model, TEXT, **{**RANDOM, "seed": seed}) for seed in (1, 1, 2))
    assert first.codes == again.codes and np.array_equal(spoken(first, TEXT), spoken(again, TEXT))
    assert first.codes != other.codes


def test_a_used_slot_is_as_good_as_a_fresh_one(model: SpeechLM, single: Callable[..., Bench]) -> None:
    bench = Bench(slots=1, model=model)
    bench.speak("before", "Would you like some tea?", seed=9)
    bench.run()
    bench.speak("after", TEXT, seed=1)
    bench.run()
    assert bench.codes["after"] == single(TEXT, seed=1).codes[TEXT]


@pytest.mark.parametrize("groups", [1, 5])
def test_the_limit_is_of_speech_not_of_the_prompt(model: SpeechLM, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "preprocess", model.preprocess)  # and back again
    frames = groups * model.detokenizer.group
    limit(model, frames)
    for text in ("Yes.", TEXT):
        bench = alone(model, text, seed=1)
        assert len(bench.codes[text]) == frames
        assert len(spoken(bench, text)) == samples(model, bench.codes[text])


def test_a_stream_ends_with_the_frame_that_the_model_calls_its_last(
    model: SpeechLM, single: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, calls = model.sample, count(1)

    def ending(hidden: Tensor, slots: Tensor, states: object, sampler: Sampler) -> Frames:
        made = sample(hidden, slots, states, sampler)
        return replace(made, last=made.last | (next(calls) == 10))

    expected = single(TEXT, seed=1).codes[TEXT][:10]
    monkeypatch.setattr(model, "sample", ending)
    bench = alone(model, TEXT, seed=1)
    assert bench.codes[TEXT] == expected
    assert bench.replies[TEXT][-1] == Ended(stream=TEXT, reason="done", frames=10)
    assert len(spoken(bench, TEXT)) == samples(model, expected)


def test_text_without_words_is_refused(model: SpeechLM) -> None:
    for text in ("", " \n", "…"):
        with pytest.raises(InvalidRequest):
            model.split(text)


def test_a_long_text_comes_in_pieces_that_fit(model: SpeechLM) -> None:
    pieces = model.split("The train to the coast leaves at ten. " * 40)
    assert len(pieces) > 1
    for piece in pieces:
        prompt = model.preprocess(Utterance(piece, model.voices[0]))
        assert 0 < prompt.length and prompt.length + prompt.max_frames <= model.cache.positions


def test_what_it_declares(model: SpeechLM) -> None:
    detokenizer = model.detokenizer
    assert model.frame_rate == pytest.approx(detokenizer.sample_rate * detokenizer.group / detokenizer.samples_per_group)
    assert [name for name in Sampling.__struct_fields__ if getattr(model.defaults, name) is None] == ["seed"]
    assert "default" in model.voices, "which is asked for where nobody chose"
