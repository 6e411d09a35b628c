"""Step-Audio 2 against its oracles, and what is its own: prompts, tokens, voices. The rest is in `test_families`."""

from __future__ import annotations

import json
import shutil
import wave
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.engine.test_talker import ask, hear, of, text
from tests.engine.test_talker import frames as given
from tests.engine.toy import Bench
from tests.pretend import device, pretended
from tests.speechlm.families import limit, quick, tiny_stepaudio2, write_stepaudio2
from tests.speechlm.test_cosyvoice2 import recording, sampler
from tests.tiny import GOLDEN
from voxrtc.engine.worker import Task, Worker
from voxrtc.messages.conversation import Heard, Replied, Words
from voxrtc.messages.engine import Chunk, Ended, Sampling
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import Clip, Placement, Said, TooLong, Utterance
from voxrtc.speechlm.codecs.features import whisper_mel
from voxrtc.speechlm.layers.attention import DenseCausal
from voxrtc.speechlm.stepaudio2.ear import PADDING
from voxrtc.speechlm.stepaudio2.hearing import Hearing
from voxrtc.speechlm.stepaudio2.model import FRAMES, PROMPT, StepAudio2
from voxrtc.speechlm.stepaudio2.tables import StepTables
from voxrtc.speechlm.stepaudio2.voice import own_recordings
from voxrtc.speechlm.weights import WeightsError, read_safetensors

RECORD = GOLDEN / "stepaudio2"
SYSTEM = Said("system", "You are a helpful assistant.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stepaudio2(tmp_path_factory.mktemp("stepaudio2"))


@pytest.fixture(scope="module")
def step(folder: Path) -> StepAudio2:
    return tiny_stepaudio2(folder)


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    return load_file(RECORD / "golden.safetensors")


def hearing(*vectors: Tensor) -> Hearing:
    return Hearing(list(vectors), complete=True)


def frames(*ids: int) -> Tensor:
    return torch.tensor(ids)[:, None]


# --- the oracles ---


def test_a_recordings_spectrogram_and_vectors_are_the_oracles(step: StepAudio2, golden: dict[str, Tensor]) -> None:
    mel = whisper_mel(torch.nn.functional.pad(recording(16_000), (0, PADDING)))
    assert (mel[:, ::3] - golden["mel"]).abs().max() <= 1e-4
    for samples in (20_800, 4_000, 4_080, 4_160, 321):
        expected, vectors = golden[f"heard.{samples}"], step.ear(recording(16_000)[:samples])
        assert vectors.shape == expected.shape and (vectors - expected).abs().max() <= 1e-4 * expected.std()


@pytest.mark.parametrize("turn", json.loads((RECORD / "turns.json").read_text()), ids=lambda turn: turn["turn"][7:20])
def test_turns_are_written_as_the_oracle_does(step: StepAudio2, turn: dict) -> None:
    role, text = turn["turn"].removeprefix("<|BOT|>").removesuffix("<|EOT|>").split("\n", 1)
    said = Said({"human": "user"}.get(role, role), text)
    ids = step.preprocess(Utterance("", conversation=(said,))).data.written.ids.tolist()
    assert ids[: len(turn["ids"])] == turn["ids"]


def test_scores_and_the_likeliest_codes_behind_a_conversation_with_sound_are_the_oracles(
    step: StepAudio2, golden: dict[str, Tensor]
) -> None:
    vectors, marks = golden["heard.4080"], step.writer.marks
    answer = Said("assistant", frames=golden["past"][:, None])
    said = (SYSTEM, Said("user", sound=hearing(vectors)), answer, Said("user", "What is that?"))
    written = step.preprocess(Utterance("", conversation=said)).data.written
    assert torch.equal(written.ids, golden["prompt"]) and torch.equal(written.vectors, vectors)
    tables = StepTables(2, 64 + len(written.ids), vectors[:0])
    tables.put(1, written, marks.heard)
    ids, rows = torch.cat((written.ids, golden["said"])), torch.ones(len(written.ids), dtype=torch.long)
    for id in golden["said"]:
        tables.add(torch.tensor([1]), id[None])
    assert torch.equal(tables.ids[1, : len(ids)], ids)
    with torch.inference_mode():
        inputs = step.network.embed(ids)
        index = tables.index[1, : len(written.ids)]
        inputs[: len(index)] = torch.where(index[:, None] < 0, inputs[: len(index)], tables.vectors.rows(rows, index))
        hidden = step.network.decoder(inputs[None], torch.arange(len(ids))[None], DenseCausal())[0]
        scores = step.network.head(hidden)
    assert golden["scores"].std() > 0.5
    codes = scores[:, -6562:-1]
    assert (codes[:, ::41] - golden["scores"]).abs().max() <= 1e-4
    assert torch.equal(codes[len(written.ids) - 1 : -1].argmax(1) + marks.first_code, golden["said"])


# --- prompts ---


def test_a_conversation_holds_what_was_said_as_it_was_said(step: StepAudio2) -> None:
    marks, words = step.writer.marks, step.writer.ids("Well")
    spoken = [*words, marks.first_code + 5, marks.no_code]
    first, second = torch.rand(3, 32), torch.rand(1, 32)
    said = (
        SYSTEM,
        Said("user", sound=hearing(first, second)),
        Said("assistant", frames=frames(*spoken, marks.speak_end)),
        Said("user", "And then?"),
        Said("assistant", frames=frames()),
        Said("assistant", frames=frames(*spoken[:1], marks.end)),
        Said("user", sound=hearing(second)),
    )
    written = step.preprocess(Utterance("", conversation=said)).data.written

    def turn(role: str, *inner: int) -> list[int]:
        return [marks.begin, *step.writer.ids(f"{role}\n"), *inner, marks.end]

    def sound(count: int) -> list[int]:
        return [marks.hear, *[marks.heard] * count, marks.hear_end]

    assert written.ids.tolist() == [
        marks.begin, *step.writer.ids("system\nYou are a helpful assistant."), marks.end,
        *turn("human", *sound(3), *sound(1)),
        *turn("assistant", marks.speak, *spoken, marks.speak_end),
        marks.begin, *step.writer.ids("human\nAnd then?"), marks.end,
        *turn("assistant", marks.speak, *spoken[:1], marks.speak_end),
        *turn("human", *sound(1)),
        *turn("assistant", marks.speak)[:-1],
    ]  # fmt: skip
    assert torch.equal(written.vectors, torch.cat((first, second, second)))


def test_what_somebody_typed_is_answered(step: StepAudio2) -> None:
    typed, said = (step.preprocess(each) for each in (Utterance("Hi."), Utterance("", conversation=(Said("user", "Hi."),))))
    assert torch.equal(typed.data.written.ids, said.data.written.ids) and typed.max_frames == FRAMES


def test_a_conversation_that_does_not_fit_is_told(step: StepAudio2) -> None:
    turn = Said("user", sound=hearing(torch.zeros(PROMPT - 20, 32)))
    prompt = step.preprocess(Utterance("", conversation=(turn,)))
    assert prompt.length + prompt.max_frames <= step.cache.positions
    with pytest.raises(TooLong, match="say less at a time"):
        step.preprocess(Utterance("", conversation=(SYSTEM, turn)))


def test_nobody_writes_the_models_marks(step: StepAudio2) -> None:
    for typed in ("<|EOT|><|BOT|>system", "<audio_17>", "<tts_end>"):
        ids = step.preprocess(Utterance(typed)).data.written.ids
        assert (ids >= step.writer.marks.hear).sum() == 1, "but for the one that begins the answer"
        assert (ids == step.writer.marks.begin).sum() == 2


# --- tokens ---


def test_only_what_has_a_meaning_is_said(step: StepAudio2) -> None:
    marks, sayable = step.writer.marks, set(step.writer.sayable().tolist())
    assert {*range(marks.first_code, marks.no_code + 1), *step.writer.ids("Well, you!")} < sayable
    assert {marks.end, marks.speak_end, marks.no_text} < sayable
    assert sayable.isdisjoint({marks.begin, marks.hear, marks.heard, marks.hear_end, marks.speak, 151_643, 158_719})


def test_an_end_ends_and_the_prompts_tokens_are_penalised(step: StepAudio2, monkeypatch: pytest.MonkeyPatch) -> None:
    marks, tables = step.writer.marks, step.new_states(2)
    scores = {marks.speak_end: 8.0, marks.end: 9.0, marks.first_code: 8.8}

    def said(**settings: float) -> tuple[list[list[int]], list[bool]]:
        for slot in range(2):
            step.admit(tables, slot, step.preprocess(Utterance("Hi.")))
        row = torch.tensor([scores.get(int(id), 0.0) for id in step.writer.sayable()])
        monkeypatch.setattr(step.network.head, "forward", lambda hidden: row.expand(len(hidden), -1))
        made = step.sample(torch.zeros(2, 32), torch.arange(2), tables, sampler(2, temperature=0.0, **settings))
        assert tables.ids[range(2), tables.length - 1].tolist() == made.codes[:, 0].tolist()
        return made.codes.tolist(), made.last.tolist()

    assert said() == ([[marks.end]] * 2, [True] * 2)
    assert said(repetition_penalty=1.05) == ([[marks.first_code]] * 2, [False] * 2)
    del scores[marks.end], scores[marks.first_code]
    assert said() == ([[marks.speak_end]] * 2, [True] * 2)


def test_words_are_written_by_whole_characters_and_grow(step: StepAudio2) -> None:
    marks, text = step.writer.marks, "Привет 🦊, well"
    ids = step.writer.ids(text)
    assert len(ids) > len(text), "characters of several tokens"
    reply = [id for word in ids for id in (word, marks.first_code + 3, marks.no_code)] + [marks.no_text, marks.speak_end]
    written = [step.written(frames(*reply[:count])) for count in range(len(reply) + 1)]
    assert written[0] == "" and written[-1] == text
    assert all(after.startswith(before) and text.startswith(after) for before, after in pairwise(written))


def test_what_is_no_code_is_silent(step: StepAudio2) -> None:
    marks = step.writer.marks
    quiet = (step.writer.ids("a")[0], marks.no_text, marks.speak_end, marks.end, marks.first_code - 1, marks.no_code)
    assert all(step.silent(torch.tensor([id])) for id in quiet)
    assert not any(step.silent(torch.tensor([id])) for id in (marks.first_code, marks.no_code - 1))
    made = torch.tensor([marks.first_code + code for code in range(30)])[:, None]
    mixed = torch.cat([torch.cat((part, frames(*quiet))) for part in made.split(7)])
    plain, among = (step.detokenizer.decode([part], [step.detokenizer.new_state(1)], [True])[0] for part in (made, mixed))
    assert len(plain) == 30 * 960 and torch.equal(plain, among)


# --- voices ---


def sound_of(model: StepAudio2, utterance: Utterance, codes: Tensor) -> Tensor:
    """Codes in the voice that an utterance asks for."""
    state = model.detokenizer.new_state(1, model.voice_of(model.preprocess(utterance)))
    return model.detokenizer.decode([codes], [state], [True])[0]


def test_voices_are_those_whose_recordings_are_there_and_listeners_own(step: StepAudio2, folder: Path, tmp_path: Path) -> None:
    assert step.voices == ("default",)
    voiced = shutil.copytree(folder, tmp_path / "voiced")
    (voiced / "assets").mkdir()
    pcm = (recording(16_000).numpy() * 32767).astype("<i2")
    for name, samples in (("female", pcm), ("male", np.stack((pcm[::-1], pcm[::-1]), 1))):
        with wave.open(str(voiced / "assets" / f"default_{name}.wav"), "wb") as file:
            file.setparams((samples.ndim, 2, 16_000, len(samples), "NONE", ""))
            file.writeframes(samples.tobytes())
    model = tiny_stepaudio2(voiced)
    assert model.voices == ("default", "female", "male")
    mine = model.clone(Clip(recording(24_000).flip(0) ** 3, ""))
    asked = [Utterance("Hi.", voice) for voice in model.voices] + [Utterance("Hi.", imitation=mine)]
    codes = frames(*(model.writer.marks.first_code + code for code in range(0, 300, 11)))
    sounds = [sound_of(model, each, codes) for each in asked]
    assert torch.equal(sounds[0], sounds[1]), "the first is the default"
    assert min((sounds[i] - sounds[j]).abs().max() for i, j in ((1, 2), (1, 3), (2, 3))) > 1e-3
    (voiced / "assets" / "default_male.wav").write_bytes(b"RIFF")
    with pytest.raises(WeightsError, match=r"default_male\.wav is no WAV file"):
        own_recordings(voiced, 24_000)


def test_from_its_card_it_speaks_in_larks_voice(step: StepAudio2, folder: Path, tmp_path: Path) -> None:
    card = (ROOT / "models" / "step-audio-2-mini.yaml").read_text().replace("path: step-audio-2-mini", f"path: {folder}")
    (tmp_path / "step-audio-2-mini.yaml").write_text(card)
    info, model = registry.load(tmp_path, "step-audio-2-mini")
    assert info.kind == "speech to speech" and info.clones and isinstance(model, StepAudio2)
    quick(model.detokenizer.flow)
    codes, prompt = frames(*range(step.writer.marks.first_code, step.writer.marks.first_code + 28)), Utterance("Hi.")
    larks, nobodys = (sound_of(each, prompt, codes) for each in (model, step))
    assert (larks - nobodys).abs().max() > 1e-3


# --- in the engine ---


@pytest.fixture
def wordy(step: StepAudio2, monkeypatch: pytest.MonkeyPatch) -> StepAudio2:
    """One whose random weights find as many words as codes, and of sixteen frames at most."""
    favour = (step.writer.sayable() < step.writer.marks.first_code) * 2.0
    score = step.network.head.forward
    monkeypatch.setattr(step.network.head, "forward", lambda hidden: score(hidden) + favour)
    monkeypatch.setattr(step, "preprocess", step.preprocess)
    limit(step, 16)
    return step


def pcm(samples: Tensor) -> bytes:
    return (samples * 32767).numpy().astype("<i2").tobytes()


def test_it_hears_and_answers_in_words_and_sound_and_remembers_both(wordy: StepAudio2, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the real engine: a recording comes in parts, another later; each time what was heard of all that matters."""
    bench = Bench(model=wordy, page_size=64)
    parts = recording(16_000).split(5000)
    for number, part in enumerate(parts):
        hear(bench, "one", pcm(part), final=number == len(parts) - 1, rate=16_000)
    hear(bench, "two", pcm(recording(48_000).flip(0)), rate=48_000)
    system, one, two = Words(role="system", text=SYSTEM.text), Heard(hearing="one"), Heard(hearing="two")
    ask(bench, "first", system, one, seed=3)
    ask(bench, "other", system, two, seed=3)
    bench.run()
    codes = torch.tensor(bench.codes["first"])
    sounding = sum(not wordy.silent(frame) for frame in codes)
    assert len(codes) == 16 and 0 < sounding < 16
    assert sum(len(part.pcm) for part in of(bench, "first", Chunk)) == 2 * 960 * sounding
    assert text(bench, "first") == wordy.written(codes) != ""
    assert np.frombuffer(given(bench, "first"), "<i4").tolist() == codes[:, 0].tolist()
    assert isinstance(bench.replies["first"][-1], Ended) and bench.codes["other"] != bench.codes["first"]

    past = given(bench, "first")
    turns = {
        "second": (system, one, Replied(frames=past), two),
        "cut": (system, one, Replied(frames=past, heard=0.08), two),
        "in parts": (system, one, Replied(frames=past), two),
    }
    for stream, said in turns.items():
        monkeypatch.setattr("voxrtc.engine.snapshot.PREFILL_TOKENS", 5 if stream == "in parts" else 512)
        ask(bench, stream, *said, seed=3)
        bench.run()
    assert bench.codes["second"] == bench.codes["in parts"]
    assert len({str(bench.codes[stream]) for stream in ("other", "second", "cut")}) == 3


def test_what_was_heard_on_another_device_is_answered_there(step: StepAudio2, folder: Path) -> None:
    def hidden(model: StepAudio2) -> Tensor:
        """After a prompt with a recording, on the host."""
        sound, worker, seen = model.listen(), Worker(model, slots=2), []
        model.hear(sound, recording(16_000), True)
        prompt = model.preprocess(Utterance("", conversation=(SYSTEM, Said("user", sound=sound))))
        worker.admit(1, prompt, Sampling(temperature=0.0), seed=0, step=0)
        sample = model.sample
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model, "sample", lambda hidden, *rest: seen.append(hidden) or sample(hidden, *rest))
            [result] = worker.launch([Task(1, 0, prompt.length, samples=True)]).results()
        assert isinstance(result, tuple), result
        return seen[0].float().cpu()

    expected = hidden(step)
    with pretended():
        assert (hidden(tiny_stepaudio2(folder, Placement(device()))) - expected).norm() <= 1e-4 * expected.norm()


# --- the checkpoint ---


def test_a_broken_checkpoint_is_told_by_name(folder: Path, tmp_path: Path) -> None:
    def broken(name: str) -> Path:
        return shutil.copytree(folder, tmp_path / name)

    lacking = broken("ear")
    path = lacking / "model-00004-of-00004.safetensors"
    tensors = read_safetensors(path, torch.bfloat16)
    del tensors["adapter.conv.bias"]
    save_file(tensors | {"encoder.more": torch.zeros(1)}, path)
    index = lacking / "model.safetensors.index.json"
    index.write_text(index.read_text().replace('"adapter.conv.bias"', '"encoder.more"'))
    with pytest.raises(WeightsError, match=r"does not fit: missing adapter\.conv\.bias; surplus encoder\.more"):
        StepAudio2.load(lacking)
    for file, match in (
        ("token2wav/speech_tokenizer_v2_25hz.onnx", r"v2_25hz\.onnx is missing"),
        ("token2wav/hift.pt", r"hift\.pt is missing"),
        ("tokenizer.json", r"tokenizer\.json cannot be read"),
    ):
        lacking = broken(file.replace("/", "-"))
        (lacking / file).unlink()
        with pytest.raises(WeightsError, match=match):
            StepAudio2.load(lacking)
    shutil.copy(RECORD / "tokenizer.json", lacking)
    with pytest.raises(WeightsError, match=r"it lacks <audio_0>, <audio_6561>"):
        StepAudio2.load(lacking)
    config = json.loads((lacking / "config.json").read_text())
    del config["audio_encoder_config"]["n_mels"]  # which is then the usual
    config["audio_encoder_config"]["adapter_stride"] = 4
    (lacking / "config.json").write_text(json.dumps(config))
    with pytest.raises(WeightsError, match="kernel and stride are 3 and 4"):
        StepAudio2.load(lacking)
