"""Text that comes while it is spoken: the same speech whenever it comes, and nobody is held up by who waits for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine.toy import Bench, Inline, Toy
from voxrtc.engine.imitations import Imitations
from voxrtc.engine.scheduler import POLICIES
from voxrtc.messages.engine import Cancel, Chunk, Ended, Extend, Failed, Generate, Playout, Reference, Sampling
from voxrtc.speechlm.base import Batch, Clip, Frames, Prompt, Sampler, Utterance, Word

LOOK = 2  # letters ahead
LETTER = 3  # frames


class Runner(Toy):
    """Says each letter in three frames, and sees two letters ahead; the second code of a frame says whether a letter ends.
    “|” parts pieces. A step without the letters it sees would be of other codes."""

    runs = True

    def extend(self, prompt: Prompt | None, utterance: Utterance, final: bool) -> Prompt | None:
        piece, bar, _ = utterance.text.partition("|")
        whole = bool(bar) or final
        if not piece and final and not bar:
            return None
        reach = None if whole else len(piece) - LOOK
        if not piece or (reach is not None and reach < 1):
            assert not whole, "a piece needs letters"
            return None
        words = tuple(Word(i, i + 1, i + 1) for i in range(len(piece)))
        data = torch.tensor(list(piece.encode()))
        return Prompt(1, 120, data, words=words, reach=reach, characters=len(piece) + len(bar))

    def passes(self, frame: Tensor) -> int:
        return int(frame[1])

    def admit(self, states: dict[str, Tensor], slot: int, prompt: Prompt) -> None:
        states["made"][slot], states["frame"][slot] = 0, 64
        self.grow(states, slot, prompt)

    def grow(self, states: dict[str, Tensor], slot: int, prompt: Prompt) -> None:
        states["text"][slot] = 0
        states["text"][slot, : len(prompt.data)] = prompt.data
        states["length"][slot] = len(prompt.data)

    def forward(self, batch: Batch, states: dict[str, Tensor]) -> Tensor:
        rows = batch.rows
        window = (states["made"][rows] // LETTER)[:, None] + torch.arange(LOOK + 1)
        letters = states["text"][rows[:, None], window.clamp(max=127)]
        x = self.codes(states["frame"][rows]).sum(1) + (self.bytes(letters) * torch.arange(1, LOOK + 2)[:, None]).sum(1)
        x = torch.where((letters[:, :1] == ord("!")), torch.nan, x)
        return self.decoder(x, batch.positions, batch.attention)[batch.ends]

    def sample(self, hidden: Tensor, slots: Tensor, states: dict[str, Tensor], sampler: Sampler) -> Frames:
        frame = torch.stack([sampler(head(hidden), book) for book, head in enumerate(self.heads)], 1)
        made = states["made"][slots] + 1
        frame[:, 1] = made % LETTER == 0
        states["frame"][slots], states["made"][slots] = frame, made
        return Frames(frame, made >= LETTER * states["length"][slots])


RUNNER = Runner()  # keeps nothing of a stream


def begin(bench: Bench, stream: str, text: str, **sampling) -> None:  # type: ignore[no-untyped-def]
    bench.send(Generate(stream=stream, text=text, accepted=bench.now, sampling=Sampling(**sampling), final=False), stream)


def extend(bench: Bench, stream: str, text: str, final: bool = False) -> None:
    bench.send(Extend(stream=stream, text=text, final=final), stream)


@cache
def at_once(text: str, **sampling) -> Bench:  # type: ignore[no-untyped-def]
    bench = Bench(model=RUNNER)
    begin(bench, "a", text, **sampling)
    extend(bench, "a", "", final=True)
    bench.run()
    return bench


def sound(bench: Bench, stream: str) -> bytes:
    return b"".join(reply.pcm for reply in bench.replies[stream] if isinstance(reply, Chunk))


TEXTS = st.lists(st.text("abc ", min_size=1, max_size=6), min_size=1, max_size=3).map("|".join)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_speech_does_not_depend_on_when_its_text_came(data: st.DataObject) -> None:
    """Nor on company, slots, preemption, the policy, or steps that are under way."""
    texts = data.draw(st.lists(TEXTS, min_size=1, max_size=4))
    policy = POLICIES[data.draw(st.sampled_from(sorted(POLICIES)))]
    bench = Bench(data.draw(st.integers(1, 3)), data.draw(st.integers(16, 24)), model=RUNNER, policy=policy)
    bench.worker.lag = data.draw(st.sampled_from([0, 1, 2]))
    sampling = [data.draw(st.sampled_from([{"seed": 1}, {"seed": 2, "temperature": 0.9}])) for _ in texts]
    left, cancelled = dict(enumerate(texts)), set()
    for i in left:
        begin(bench, str(i), "", **sampling[i])
    while left:
        i = data.draw(st.sampled_from(sorted(left)))
        count = data.draw(st.integers(1, len(left[i])))
        extend(bench, str(i), left[i][:count], final=count == len(left[i]))
        left[i] = left[i][count:]
        if not left[i]:
            del left[i]
        for _ in range(data.draw(st.integers(0, 20))):
            bench.step()
        if data.draw(st.integers(0, 9)) == 9:
            cancelled.add(i)
            bench.send(Cancel(stream=str(i)), str(i))
    bench.run()
    for i, text in enumerate(texts):
        expected = at_once(text, **sampling[i])
        codes = bench.codes.get(str(i), [])
        if i in cancelled and bench.replies[str(i)][-1].reason == "cancelled":  # type: ignore[union-attr]
            assert codes == expected.codes["a"][: len(codes)]
            continue
        assert codes == expected.codes["a"]
        assert sound(bench, str(i)) == sound(expected, "a")
        assert bench.replies[str(i)][-1] == Ended(stream=str(i), reason="done", frames=len(codes))
    assert bench.worker.cache.used == 0 and sorted(bench.engine._slots) == list(range(bench.worker.slots))


def test_all_of_a_text_is_said_and_each_letter_is_told() -> None:
    bench = at_once("hello|you")
    assert len(bench.codes["a"]) == LETTER * len("helloyou")
    spoken = [each for reply in bench.replies["a"] if isinstance(reply, Chunk) for each in reply.spoken]
    assert [each.characters for each in spoken] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    frame = 1 / Toy.frame_rate
    assert [each.end for each in spoken[:5]] == pytest.approx([LETTER * n * frame for n in range(1, 6)])
    assert spoken[5].begin == spoken[5].end == pytest.approx(15 * frame), "the first piece ends; “|” goes with it"
    assert spoken[6].begin == pytest.approx(15 * frame)


def test_who_waits_for_text_rests_and_holds_nobody_up() -> None:
    bench = Bench(model=RUNNER)
    begin(bench, "a", "hello there")
    bench.run()
    assert len(bench.codes["a"]) == LETTER * (len("hello there") - LOOK), "as far as it sees"
    assert not bench.step(), "there is nothing to run"
    begin(bench, "b", "other", seed=1)
    extend(bench, "b", "s", final=True)
    bench.run()
    assert isinstance(bench.replies["b"][-1], Ended)
    bench.send(Playout(stream="a", played=0.1, at=bench.now, running=True), "a")
    bench.step()
    slack = bench.engine.streams["a"].slack(bench.now)
    bench.now += 0.1
    assert slack and bench.engine.streams["a"].slack(bench.now) < slack  # type: ignore[operator]
    extend(bench, "a", " world", final=True)
    bench.run()
    assert bench.codes["a"] == at_once("hello there world").codes["a"]


def test_a_sentence_is_spoken_to_its_end_before_the_next_is_there() -> None:
    bench = Bench(model=RUNNER)
    begin(bench, "a", "hello|")
    bench.run()
    assert len(sound(bench, "a")) == 2 * 20 * LETTER * len("hello")
    assert bench.engine.streams and bench.worker.cache.used == 0, "nothing is held between sentences"
    extend(bench, "a", "you", final=True)
    bench.run()
    assert bench.codes["a"] == at_once("hello|you").codes["a"] and not bench.engine.streams


@pytest.mark.parametrize("text", ["", "hello|"])
def test_the_end_may_come_without_a_word(text: str) -> None:
    bench = Bench(model=RUNNER)
    begin(bench, "a", text)
    bench.run()
    extend(bench, "a", "", final=True)
    bench.run()
    extend(bench, "a", "too late", final=True)
    bench.run()
    last = bench.replies["a"][-1]
    assert isinstance(last, Ended) if text else isinstance(last, Failed) and last.code == "invalid_request"
    assert not bench.engine.streams


def test_a_text_may_end_while_its_beginning_is_being_read() -> None:
    """Too little to begin with was read, but it was not all."""
    model = Runner()
    extend_ = model.extend

    def slow(prompt: Prompt | None, utterance: Utterance, final: bool) -> Prompt | None:
        if utterance.text == "he":  # here nobody else runs meanwhile
            running = bench.engine.streams["a"].running
            assert running
            running.add("llo", final=True)
        return extend_(prompt, utterance, final)

    model.extend = slow  # type: ignore[method-assign]
    bench = Bench(model=model)
    begin(bench, "a", "he")
    bench.run()
    assert bench.codes["a"] == at_once("hello").codes["a"] and not bench.engine.streams


def test_a_stream_that_waits_for_text_can_be_cancelled_and_fail() -> None:
    bench = Bench(model=RUNNER)
    for stream in ("cancelled", "failing", "good"):
        begin(bench, stream, "hello")
    bench.run()
    bench.send(Cancel(stream="cancelled"), "cancelled")
    extend(bench, "cancelled", "nobody hears this", final=True)
    extend(bench, "failing", "!!!", final=True)
    extend(bench, "good", " you", final=True)
    bench.run()
    assert bench.replies["cancelled"][-1].reason == "cancelled"  # type: ignore[union-attr]
    assert isinstance(bench.replies["failing"][-1], Failed)
    assert bench.codes["good"] == at_once("hello you").codes["a"]
    assert bench.worker.cache.used == 0 and not bench.engine.streams


def test_a_reader_that_fails_fails_its_stream_alone() -> None:
    model = Runner()
    extend_ = model.extend

    def poisoned(prompt: Prompt | None, utterance: Utterance, final: bool) -> Prompt | None:
        if "x" in utterance.text:
            raise RuntimeError("it cannot read that")
        return extend_(prompt, utterance, final)

    model.extend = poisoned  # type: ignore[method-assign]
    bench = Bench(model=model)
    begin(bench, "bad", "hello")
    begin(bench, "good", "hello")
    bench.run()
    extend(bench, "bad", "x")
    extend(bench, "good", " you", final=True)
    bench.run()
    failure = bench.replies["bad"][-1]
    assert isinstance(failure, Failed) and failure.code == "engine_error"
    assert bench.codes["good"] == at_once("hello you").codes["a"] and not bench.engine.streams


def test_who_waits_for_text_still_counts_at_the_door() -> None:
    """It goes on at any moment: nobody is let in whom there would be no room for then."""
    bench = Bench(slots=1, model=RUNNER)
    begin(bench, "a", "hello")
    bench.run()
    begin(bench, "b", "hello")
    extend(bench, "b", "", final=True)
    bench.run()
    assert not bench.codes.get("b")
    extend(bench, "a", "", final=True)
    bench.run()
    assert isinstance(bench.replies["b"][-1], Ended)


def test_what_takes_no_running_text_says_so() -> None:
    bench = Bench()
    begin(bench, "a", "hello")
    bench.run()
    assert isinstance(refusal := bench.replies["a"][-1], Failed) and "all of it at once" in refusal.message


class Actor(Runner):
    """Begins every piece with how to speak."""

    instructed = True

    def preprocess(self, utterance: Utterance) -> Prompt:
        return Toy.preprocess(self, replace(utterance, text=utterance.instructions + utterance.text))


def test_how_to_speak_reaches_every_piece_of_a_text_that_is_all_there() -> None:
    bench, plain = Bench(model=Actor()), Bench(model=RUNNER)
    asked = Generate(stream="a", text="you|and", accepted=0.0, instructions="he", sampling=Sampling(seed=1))
    bench.send(asked, "a")
    bench.run()
    plain.speak("a", "heyou|heand", seed=1)
    plain.run()
    assert bench.codes == plain.codes and isinstance(bench.replies["a"][-1], Ended)
    bench.send(Generate(stream="b", text="you", accepted=0.0, instructions="he", final=False), "b")
    bench.run()
    assert isinstance(refusal := bench.replies["b"][-1], Failed) and "How to speak" in refusal.message
    bench = Bench(model=RUNNER)
    bench.send(Generate(stream="a", text="hello|you", accepted=0.0, instructions="he", final=False), "a")
    extend(bench, "a", "", final=True)
    bench.run()
    assert bench.codes == at_once("hello|you").codes, "who takes no such words does not care"


class Impressionist(Runner):
    """Says all in another voice: what a recording is on the average is added to each letter."""

    def clone(self, clip: Clip) -> int:
        return round(float(clip.samples.mean()) * 128)

    def extend(self, prompt: Prompt | None, utterance: Utterance, final: bool) -> Prompt | None:
        new = super().extend(prompt, utterance, final)
        return new and replace(new, data=new.data + (utterance.imitation or 0))


class Deferred(Inline):
    """Does its jobs when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def submit(self, job, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future = Future()
        self.jobs.append(lambda: future.set_result(job(*args, **kwargs)))
        return future


def test_a_running_text_is_spoken_in_the_voice_of_the_recording() -> None:
    """To its end, and also what comes before the voice is there."""

    def spoken(voice: int, early: str, text: str) -> Bench:
        imitations = Deferred()
        bench = Bench(model=Impressionist())
        bench.engine._prompts._imitations = Imitations(bench.worker.model, imitations)
        reference = Reference(pcm=(torch.full((800,), voice) * 256).short().numpy().tobytes(), sample_rate=8000)
        bench.send(Generate(stream="a", text=early, accepted=0.0, reference=reference, final=False), "a")
        extend(bench, "a", text[: len(text) // 2])
        bench.run()
        assert not bench.codes, "nobody speaks before the voice is made"
        for job in imitations.jobs:
            job()
        bench.run()
        extend(bench, "a", text[len(text) // 2 :], final=True)
        bench.run()
        assert isinstance(bench.replies["a"][-1], Ended)
        return bench

    assert spoken(0, "hel", "lo there|you").codes == at_once("hello there|you").codes
    other = spoken(1, "", "hello|you")
    assert other.codes == at_once("ifmmp|zpv").codes, "each letter is the next one, in every piece"
