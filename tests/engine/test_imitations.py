"""Streams that speak with the voice of a recording."""

from __future__ import annotations

import pytest
import torch

from tests.engine.toy import Bench, Toy
from voxrtc.engine.imitations import KEPT, clip
from voxrtc.messages.engine import Ended, Failed, ForgetVoice, Generate, Reference
from voxrtc.speechlm.base import Clip, InvalidRequest, Prompt, Utterance


class Mimic(Toy):
    """What a recording is on the average is the byte that its prompts begin with."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Clip] = []

    def clone(self, clip: Clip) -> str:
        self.heard.append(clip)
        if clip.text == "poison":
            raise RuntimeError("a recording that does not fit")
        return chr(round(float(clip.samples.mean()) * 128))

    def preprocess(self, utterance: Utterance) -> Prompt:
        return super().preprocess(Utterance((utterance.imitation or "") + utterance.text))


def reference(voice: str, text: str = "", sample_rate: int = 8000) -> Reference:
    pcm = (torch.full((sample_rate,), ord(voice)) * 256).short().numpy().tobytes()
    return Reference(pcm=pcm, sample_rate=sample_rate, text=text)


def ask(bench: Bench, stream: str, text: str, reference: Reference) -> None:
    bench.send(Generate(stream=stream, text=text, accepted=bench.now, reference=reference), stream)


def test_every_piece_is_spoken_with_the_voice_of_the_recording() -> None:
    bench, plain = Bench(model=Mimic()), Bench()
    ask(bench, "a", "hello|world", reference("x"))
    bench.run()
    plain.speak("a", "xhello|xworld")
    plain.run()
    assert bench.codes == plain.codes and isinstance(bench.replies["a"][-1], Ended)


def test_a_voice_is_made_once_and_nobody_gets_anothers() -> None:
    model = Mimic()
    bench = Bench(model=model)
    for stream, voice, text in (("a", "x", "1"), ("b", "y", "1"), ("c", "x", "1"), ("d", "x", "2")):
        ask(bench, stream, "hello", reference(voice, text))
        bench.run()
    assert len(model.heard) == 3
    assert bench.codes["a"] == bench.codes["c"] == bench.codes["d"] != bench.codes["b"]


def test_only_the_latest_voices_are_kept() -> None:
    model = Mimic()
    bench = Bench(model=model)
    for i in [*range(KEPT + 1), 0]:
        ask(bench, f"{len(model.heard)}", "hello", reference(chr(65 + i)))
        bench.run()
    assert len(model.heard) == KEPT + 2


def test_a_recordings_voice_goes_by_a_name_of_its_own() -> None:
    bench = Bench(model=Mimic())
    for stream, recording in (("a", reference("x")), ("b", None)):
        request = Generate(stream=stream, text="hello", accepted=0.0, voice="voice_1", reference=recording)
        bench.send(request, stream)
    bench.run()
    refused = bench.replies["b"][-1]
    assert isinstance(bench.replies["a"][-1], Ended)
    assert isinstance(refused, Failed) and "There is no voice" in refused.message


def test_a_voice_that_was_deleted_is_forgotten_and_others_are_not() -> None:
    model = Mimic()
    bench = Bench(model=model)
    for stream, voice in (("a", "x"), ("b", "y")):
        ask(bench, stream, "hello|world", reference(voice))
        bench.step()
    bench.send(ForgetVoice(digest=reference("x").digest), "")
    bench.run()
    assert all(isinstance(bench.replies[stream][-1], Ended) for stream in "ab"), "who speaks with it speaks on"
    made = bench.engine._prompts._imitations._made
    assert list(made) == [reference("y").digest] and len(model.heard) == 2
    ask(bench, "c", "hello", reference("x"))
    bench.run()
    assert len(model.heard) == 3


def test_a_digest_is_of_all_that_a_recording_is() -> None:
    digests = {reference(*each).digest for each in (("x", "1"), ("x", "11"), ("y", "1"), ("x", "1", 8001))}
    assert len(digests) == 4 and reference("x", "1").digest in digests


def test_big_voices_leave_less_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest is kept however big it is; the oldest go first."""
    model = Mimic()
    monkeypatch.setattr(model, "size", lambda voice: {"A": 2e9, "B": 5e8, "C": 5e8, "D": 9e8, "E": 3e9}[voice])
    bench = Bench(model=model)
    made = []
    for i, voice in enumerate("AABCBDCBEEB"):
        before = len(model.heard)
        ask(bench, f"{i}", "hello", reference(voice))
        bench.run()
        made.append(len(model.heard) > before)
    assert "".join("ny"[new] for new in made) == "ynyynynnyny"


def test_a_recording_fails_its_own_stream_only() -> None:
    bench = Bench(model=Mimic())
    bench.speak("b", "hello")
    ask(bench, "a", "hello", reference("x", "poison"))
    ask(bench, "c", "hello", Reference(pcm=b"odd", sample_rate=8000))
    bench.run()
    failed = {name: replies[-1] for name, replies in bench.replies.items()}
    assert isinstance(failed["a"], Failed) and failed["a"].code == "engine_error"
    assert isinstance(failed["c"], Failed) and failed["c"].code == "invalid_request"
    assert isinstance(failed["b"], Ended)


def test_a_model_without_imitation_says_so() -> None:
    bench = Bench()
    ask(bench, "a", "hello", reference("x"))
    bench.run()
    (told,) = bench.replies["a"]
    assert isinstance(told, Failed) and "own voices" in told.message


def test_recordings_come_at_the_models_rate() -> None:
    made = clip(reference("x", sample_rate=48_000), 24_000)
    assert abs(len(made.samples) - 24_000) <= 1 and made.samples.dtype == torch.float32


@pytest.mark.parametrize("wrong", [Reference(pcm=b"", sample_rate=24_000), Reference(pcm=b"12", sample_rate=0)])
def test_senseless_recordings_are_refused(wrong: Reference) -> None:
    with pytest.raises(InvalidRequest, match="PCM16"):
        clip(wrong, 24_000)
