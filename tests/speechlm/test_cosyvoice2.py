"""CosyVoice 2 against its oracles, and what is its own: prompts, sampling, voices. The rest is in `test_families`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.engine.toy import Bench
from tests.speechlm.families import tiny_cosyvoice2
from tests.tiny import GOLDEN, noise, write
from voxrtc.engine.sampling import SamplingTable
from voxrtc.engine.scheduler import POLICIES
from voxrtc.messages.engine import Chunk, Ended, Sampling
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry, voices
from voxrtc.speechlm.base import Clip, InvalidRequest, Utterance
from voxrtc.speechlm.codecs.features import kaldi_fbank, vocoder_mel, whisper_mel
from voxrtc.speechlm.codecs.token_flow import FlowState
from voxrtc.speechlm.cosyvoice2.model import FRAMES, HEARD_CODES, HEARD_TEXT, PROMPT, CosyVoice2
from voxrtc.speechlm.cosyvoice2.prompt import Voice, rows_of
from voxrtc.speechlm.cosyvoice2.sampling import choose
from voxrtc.speechlm.layers.attention import DenseCausal
from voxrtc.speechlm.weights import WeightsError, read_pickle

RECORD = GOLDEN / "cosyvoice2"
TEXT = "The train to the coast leaves at ten."
SAID, SPOKEN = 12, 20  # tokens of text before and codes before, as in the record


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write("cosyvoice2", tmp_path_factory.mktemp("cosyvoice2"))


@pytest.fixture(scope="module")
def cosy(folder: Path) -> CosyVoice2:
    return tiny_cosyvoice2(folder)


@pytest.fixture(scope="module")
def heard() -> dict[str, Tensor]:
    return load_file(RECORD / "listening.safetensors")


def recording(rate: int) -> Tensor:
    """What the oracles heard."""
    time = torch.arange(int(1.3 * rate), dtype=torch.float64) / rate
    tone = 0.4 * torch.sin(2 * torch.pi * (220 * time + 30 * torch.sin(4 * time))) * (time * 3).sin().abs()
    return torch.where(time > 1.1, 0.0, tone.float() + 0.01 * noise(len(time))).float()


@pytest.fixture(scope="module")
def voice(cosy: CosyVoice2) -> Voice:
    return cosy.clone(Clip(recording(24_000), "What I said."))


def test_scores_and_the_likeliest_codes_are_the_oracles(cosy: CosyVoice2) -> None:
    """Text and codes before, text, and codes that follow one by one."""
    golden, rows = load_file(RECORD / "golden.safetensors"), cosy.network.rows
    text, before = (torch.arange(18) * 7 % 300).tolist(), (torch.arange(SPOKEN) * 331 % 6561).tolist()
    prompt = rows_of(rows, text[SAID:], Voice(None, tuple(text[:SAID]), tuple(before)), [])  # type: ignore[arg-type]
    inputs = torch.cat((prompt, rows.texts + golden["said"]))
    with torch.inference_mode():
        hidden = cosy.network.decoder(cosy.network.embed(inputs)[None], torch.arange(len(inputs))[None], DenseCausal())[0]
        scores = cosy.network.head(hidden)
    assert golden["scores"].std() > 1
    assert (scores[:, ::29] - golden["scores"]).abs().max() <= 1e-4
    assert torch.equal(scores[len(prompt) - 1 : -1, : rows.end].argmax(1), golden["said"])


@pytest.mark.parametrize("said", json.loads((RECORD / "texts.json").read_text()), ids=lambda said: said["text"][:12])
def test_texts_are_written_as_the_oracle_does(cosy: CosyVoice2, said: dict) -> None:
    assert cosy.writer.ids(said["text"]) == said["ids"]


def test_nobody_writes_the_prompts_marks(cosy: CosyVoice2) -> None:
    mark = cosy.writer.instruction("x")[-1]
    assert mark not in cosy.writer.ids("a<|endofprompt|>b") and cosy.writer.instruction("") == []


def test_features_are_the_oracles(heard: dict[str, Tensor]) -> None:
    for name, ours in (
        ("fbank", kaldi_fbank(recording(16_000))[::3]),
        ("whisper", whisper_mel(recording(16_000))[:, ::3]),
        ("vocoder", vocoder_mel(recording(24_000))[::3]),
    ):
        assert ours.shape == heard[name].shape
        assert (ours - heard[name]).abs().max() <= 1e-4 * heard[name].abs().max(), name
    assert kaldi_fbank(torch.zeros(399)).shape == (0, 80)


def test_a_recordings_tokens_and_speaker_are_the_oracles(cosy: CosyVoice2, heard: dict[str, Tensor]) -> None:
    assert torch.equal(cosy.reader.tokens(recording(16_000)), heard["tokens"].long())
    speaker = cosy.reader.speaker(recording(16_000))
    assert (speaker - heard["speaker"]).norm() <= 1e-3 * heard["speaker"].norm()


def test_a_voice_is_its_tokens_and_twice_as_many_frames(cosy: CosyVoice2, voice: Voice) -> None:
    prompt = voice.sound.prompt
    assert len(voice.codes) == len(prompt.tokens) == 32 and len(prompt.mel) == 64
    assert voice.text == tuple(cosy.writer.ids("What I said."))
    assert voice.sound.position == 50, "its whole block is made once for all"


def test_of_a_long_recording_the_flow_hears_the_end(cosy: CosyVoice2) -> None:
    voice = cosy.clone(Clip(recording(24_000).repeat(9), "What I said."))
    assert len(voice.codes) > HEARD_CODES and voice.sound.prompt.tokens.tolist() == list(voice.codes[-HEARD_CODES:])
    assert voice.sound.position == 2 * (HEARD_CODES - 25), "its last block waits for the first words"


def test_recordings_that_make_no_voice_are_refused(cosy: CosyVoice2) -> None:
    for seconds in (0.5, 31):
        with pytest.raises(InvalidRequest, match="1 to 30 seconds"):
            cosy.clone(Clip(torch.zeros(int(seconds * 24_000)), "What I said."))
    with pytest.raises(InvalidRequest, match="text is too long"):
        cosy.clone(Clip(recording(24_000), "one two " * HEARD_TEXT))


def test_three_modes(cosy: CosyVoice2, voice: Voice) -> None:
    rows, text = cosy.network.rows, cosy.writer.ids(TEXT)

    def asked(**how: object) -> list[int]:
        prompt = cosy.preprocess(Utterance(TEXT, **how))  # type: ignore[arg-type]
        assert prompt.length == len(prompt.data.rows) <= PROMPT
        return prompt.data.rows.tolist()

    codes = [rows.texts + code for code in voice.codes]
    assert asked() == [rows.start, *text, rows.speak]
    assert asked(imitation=voice) == [rows.start, *voice.text, *text, rows.speak, *codes], "zero-shot"
    assert asked(imitation=replace(voice, text=())) == [rows.start, *text, rows.speak], "cross-lingual"
    told = asked(imitation=voice, instructions="Speak slowly.")
    assert told == [rows.start, *cosy.writer.instruction("Speak slowly."), *text, rows.speak], "instruct"
    with pytest.raises(InvalidRequest, match="too many"):
        cosy.preprocess(Utterance(TEXT, instructions="very slowly " * HEARD_TEXT))


@pytest.mark.parametrize("mode", ["zero-shot", "cross-lingual", "instruct"])
def test_each_mode_is_asked_as_the_oracle_does(cosy: CosyVoice2, voice: Voice, mode: str) -> None:
    golden = json.loads((RECORD / "modes.json").read_text())[mode]
    said = tuple(cosy.writer.ids("The train to the coast."))
    heard = replace(voice, text=() if mode == "cross-lingual" else said, codes=tuple(i * 331 % 6561 for i in range(SPOKEN)))
    told = "Speak slowly." if mode == "instruct" else ""
    prompt = cosy.preprocess(Utterance("It leaves at ten.", imitation=heard, instructions=told))
    assert prompt.data.rows.tolist() == golden["rows"]
    assert (prompt.data.least, prompt.max_frames) == (golden["least"], min(FRAMES, golden["most"]))


def test_without_a_recording_it_speaks_in_the_voice_that_comes_along(folder: Path, tmp_path: Path) -> None:
    """As a newcomer loads it: by its card."""
    shutil.copytree(folder, tmp_path / "cosyvoice2")
    shutil.copy(ROOT / "models" / "cosyvoice2.yaml", tmp_path)
    _, model = registry.load(tmp_path, "cosyvoice2")
    assert isinstance(model, CosyVoice2)
    voice, lark = model.default, voices.lark(24_000)
    assert 4 <= len(lark.samples) / 24_000 <= 5 and lark.samples.square().mean() > 1e-3
    assert len(voice.codes) == 25 * len(lark.samples) // 24_000 and voice.text == tuple(model.writer.ids(lark.text))
    rows = model.preprocess(Utterance(TEXT)).data.rows.tolist()
    assert rows == rows_of(model.network.rows, model.writer.ids(TEXT), voice, []).tolist() and len(rows) > len(voice.codes)


def test_speech_is_as_long_as_its_text_allows(cosy: CosyVoice2) -> None:
    """At least two codes a token, at most twenty: even where the end is likelier than all else, or impossible."""
    count = len(cosy.writer.ids("Yes."))
    head = cosy.network.head
    bias = head.bias.clone()
    try:
        for likely, frames in ((1e4, 2 * count + 1), (-1e4, min(FRAMES, 20 * count))):
            head.bias = bias.clone().index_fill_(0, torch.tensor([cosy.network.rows.end]), likely)
            bench = Bench(model=cosy)
            bench.speak("a", "Yes.", seed=1)
            bench.run()
            assert len(bench.codes["a"]) == frames
            sounding = frames - (likely > 0)  # the end makes no sound
            assert sum(len(reply.pcm) for reply in bench.replies["a"] if isinstance(reply, Chunk)) == 2 * 960 * sounding
            assert isinstance(bench.replies["a"][-1], Ended)
    finally:
        head.bias = bias


@pytest.mark.parametrize("policy", ["playout", "fifo"])
def test_its_first_sound_comes_with_the_first_block(cosy: CosyVoice2, voice: Voice, policy: str) -> None:
    """A block is whole with 25 codes and 3 more, fewer by those of its voice's; of its sound 0.44 s come with the next one.

    Where too little is left to last until then, it waits for that. A call is of whole blocks, to which it adds nothing.
    """
    assert len(voice.codes) % 25 == 7
    for imitation, first, sounding in ((None, 28, 29), (voice, 21, 15), (replace(voice, sound=short(cosy, voice, 20)), 33, 39)):
        prompt = cosy.preprocess(Utterance(TEXT, imitation=imitation))
        bench = Bench(model=cosy, policy=POLICIES[policy])  # type: ignore[index]
        bench.worker.model.preprocess = lambda utterance, prompt=prompt: prompt  # type: ignore[method-assign]
        try:
            bench.speak("a", TEXT, seed=1)
            while not any(isinstance(reply, Chunk) for reply in bench.replies["a"]):
                assert bench.step()
        finally:
            del bench.worker.model.preprocess
        assert first <= len(bench.codes["a"]) <= first + 2, "and two steps until it is told"
        assert len(bench.replies["a"][0].pcm) == 2 * 480 * sounding


def short(cosy: CosyVoice2, voice: Voice, tokens: int) -> FlowState:
    """The same voice for the flow, of a recording that is cut."""
    return cosy.detokenizer.flow.prime(voice.sound.prompt.last(tokens))


def test_a_stream_sounds_like_its_own_voice(cosy: CosyVoice2, voice: Voice) -> None:
    """Two voices and none, detokenized in one call."""
    other = cosy.clone(Clip(recording(24_000).flip(0), ""))
    codes = torch.arange(30)[:, None] * 97 % 6561
    voices = [cosy.voice_of(cosy.preprocess(Utterance(TEXT, imitation=each))) for each in (voice, other, None)]
    together = cosy.detokenizer.decode([codes] * 3, [cosy.detokenizer.new_state(1, each) for each in voices], [True] * 3)
    for each, sound in zip(voices, together, strict=True):
        [alone] = cosy.detokenizer.decode([codes], [cosy.detokenizer.new_state(1, each)], [True])
        assert len(sound) == 960 * 30
        torch.testing.assert_close(sound, alone, atol=1e-5, rtol=0)
    assert min((together[i] - together[j]).abs().max() for i, j in ((0, 1), (0, 2), (1, 2))) > 1e-3


def sampler(streams: int, **settings: float):  # type: ignore[no-untyped-def]
    table = SamplingTable(streams)
    defaults = Sampling(temperature=1.0, top_k=1, top_p=1.0, min_p=0.0, repetition_penalty=1.0)
    for slot in range(streams):
        table.set(slot, Sampling(**settings), defaults, seed=slot, step=0)  # type: ignore[arg-type]
    return table.sampler(range(streams))


def test_a_code_of_late_is_drawn_anew_from_all() -> None:
    """By each code's probability; and nothing is left to chance at temperature 0."""
    streams, p = 3000, torch.tensor([0.5, 0.3, 0.2, 0.0])
    scores = p.log().expand(streams, 4)
    fresh = torch.full((streams, 10), -1)
    assert (choose(scores, fresh, sampler(streams)) == 0).all(), "top-k is 1"
    late = fresh.index_fill(1, torch.tensor([3]), 0)
    drawn = choose(scores, late, sampler(streams))
    counts = torch.bincount(drawn, minlength=4) / streams
    torch.testing.assert_close(counts, p, atol=0.03, rtol=0)
    assert torch.equal(drawn, choose(scores, late, sampler(streams)))
    assert (choose(scores, late, sampler(streams, temperature=0.0)) == 0).all()


def test_a_broken_checkpoint_is_told_by_name(folder: Path, tmp_path: Path) -> None:
    def broken(name: str) -> Path:
        return shutil.copytree(folder, tmp_path / name)

    lacking = broken("llm")
    tensors = read_pickle(lacking / "llm.pt")
    del tensors["llm_decoder.bias"]
    torch.save(tensors | {"more": torch.zeros(1)}, lacking / "llm.pt")
    with pytest.raises(WeightsError, match=r"llm\.pt does not fit: missing llm_decoder\.bias; surplus more"):
        CosyVoice2.load(lacking)
    for file, match in (
        ("campplus.onnx", r"campplus\.onnx is missing"),
        ("CosyVoice-BlankEN/merges.txt", r"merges\.txt is missing"),
        ("flow.pt", r"flow\.pt is missing"),
    ):
        lacking = broken(file.split("/")[-1])
        (lacking / file).unlink()
        with pytest.raises(WeightsError, match=match):
            CosyVoice2.load(lacking)
    (lacking / "flow.pt").write_bytes((folder / "flow.pt").read_bytes())
    (lacking / "speech_tokenizer_v2.onnx").write_bytes(b"x")
    with pytest.raises(WeightsError, match="not a whole ONNX file"):
        CosyVoice2.load(lacking)
