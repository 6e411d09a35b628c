"""A tiny random Pocket-TTS in the engine, beyond what `test_families` asks of every family."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.toy import Bench
from tests.speechlm.families import POCKETS, tiny_pocket
from tests.speechlm.test_families import alone, spoken
from tests.tiny import GOLDEN
from voxrtc.messages.engine import Ended, Failed, Generate, Reference, Sampling
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import Clip, InvalidRequest, Utterance
from voxrtc.speechlm.pocket.config import PocketConfig, TextRules
from voxrtc.speechlm.pocket.model import LONGEST_VOICE, Pocket
from voxrtc.speechlm.pocket.released import released
from voxrtc.speechlm.pocket.text import MAX_TOKENS, Writer, read_tokenizer
from voxrtc.speechlm.weights import WeightsError

TEXTS = ["Hello there.", "The train to the coast leaves at ten.", "Yes.", "I am very well, thank you. It is a fine day."]


@pytest.fixture(scope="module", params=POCKETS)
def pocket(request: pytest.FixtureRequest) -> Pocket:
    return tiny_pocket(request.param)


def test_everything_ends_in_time(pocket: Pocket) -> None:
    for text in TEXTS:
        frames = len(alone(pocket, text, seed=1).codes[text])
        most = sum(pocket.preprocess(Utterance(piece)).max_frames for piece in pocket.split(text))
        assert 6 < frames <= most


def test_an_end_is_not_heard_at_once_and_takes_some_frames(pocket: Pocket) -> None:
    model = tiny_pocket("plain")
    with torch.no_grad():
        model.network.eos.bias.fill_(1e9)
    for text, after in (("Yes.", 5), ("It is a fine day today.", 3)):
        assert len(alone(model, text).codes[text]) == 6 + after
    with torch.no_grad():
        model.network.eos.bias.fill_(-1e9)
    assert len(alone(model, "Yes.").codes["Yes."]) == model.preprocess(Utterance("Yes.")).max_frames


def test_seeds_and_temperature(pocket: Pocket) -> None:
    text = TEXTS[1]
    one, again, two = (np.array(alone(pocket, text, seed=seed).codes[text][:6]) for seed in (1, 1, 2))
    assert np.array_equal(one, again) and np.abs(one - two).max() > 0.05
    still = [np.array(alone(pocket, text, seed=seed, temperature=0.0).codes[text][:6]) for seed in (1, 2)]
    assert np.array_equal(*still)


def test_pieces_of_a_stream_have_noise_of_their_own(pocket: Pocket) -> None:
    text = "The train to the coast leaves at ten. " * 6
    assert len(pocket.split(text)) > 1
    bench = alone(pocket, text, seed=3)
    assert isinstance(bench.replies[text][-1], Ended)
    assert len(spoken(bench, text)) == 1920 * len(bench.codes[text])


def test_voices(pocket: Pocket) -> None:
    assert pocket.voices == ("default", "other", "someone")
    bench = Bench(model=pocket)
    for voice in (*pocket.voices, "nobody"):
        request = Generate(stream=voice, text="Yes.", accepted=0.0, voice=voice, sampling=Sampling(seed=1))
        bench.send(request, voice)
    bench.run()
    assert bench.codes["default"] == pytest.approx(np.array(bench.codes["other"]), abs=1e-4)
    assert np.abs(np.array(bench.codes["other"][:6]) - np.array(bench.codes["someone"][:6])).max() > 0.05
    [failed] = bench.replies["nobody"]
    assert isinstance(failed, Failed) and "someone" in failed.message


def test_a_stream_whose_numbers_break_fails_alone(pocket: Pocket) -> None:
    bench = Bench(slots=2, model=pocket)
    for text in TEXTS[:2]:
        bench.speak(text, text, seed=5)
    for _ in range(4):
        bench.step()
    bench.worker.states.latent[bench.engine.streams[TEXTS[0]].slot] = torch.nan
    bench.run()
    assert isinstance(bench.replies[TEXTS[0]][-1], Failed) and isinstance(bench.replies[TEXTS[1]][-1], Ended)
    expected = alone(pocket, TEXTS[1], seed=5)
    assert np.abs(spoken(bench, TEXTS[1]) - spoken(expected, TEXTS[1])).max() <= 2e-4


def test_a_card_loads_it(tmp_path: Path) -> None:
    card = yaml.safe_load((ROOT / "models" / "pocket.yaml").read_text("utf-8"))
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**card, "name": "tiny", "path": "plain", "sources": []}))
    shutil.copytree(GOLDEN / "pocket" / "languages" / "plain", tmp_path / "plain")
    info, model = registry.load(tmp_path, "tiny")
    assert info.family == "pocket" and info.licence == "CC-BY-4.0" and "alba" in info.voices
    assert (info.frame_rate, info.sample_rate) == (model.frame_rate, model.detokenizer.sample_rate)


def test_released_checkpoints_are_known() -> None:
    for name, dim, layers in (("english", 1024, 6), ("french_24l", 1024, 24), ("english_18m_2026-10", 512, 8),
                              ("english_7m_refl_2026-10", 224, 8), ("english_2m_2026-10", 112, 8)):  # fmt: skip
        values = released(name)
        assert values
        config = PocketConfig.parse(values)
        assert (config.decoder.dim, config.decoder.layers) == (dim, layers)
        assert config.codec.samples_per_frame == config.encoder.samples_per_frame == 1920
    assert released("klingon") is None


# --- text ------------------------------------------------------------------------------------------------------------

WRITER = Writer(TextRules(), lambda text: [0] * (len(text) // 3 + 1))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("hello", ["hello"]),
        ("One. Two! Three? Four…", ["One. Two! Three? Four…"]),
        ("Dr. No said “go.” Then e.g. U.S. troops paid 3.14.", ["Dr. No said “go.” Then e.g. U.S. troops paid 3.14."]),
        ("  a\n\nb\tc ", ["a b c"]),
        ("a" * 100 + ". " + "b" * 100 + ".", ["a" * 100 + ".", "b" * 100 + "."]),
    ],
)
def test_pieces(text: str, pieces: list[str]) -> None:
    assert WRITER.split(text) == pieces


@pytest.mark.parametrize("text", ["", " \n", "...", "—", "\u200b"])
def test_text_without_words_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="nothing to say"):
        WRITER.split(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400) | st.lists(st.from_regex(r"[A-Za-zé]{1,30}[,;.!?]?", fullmatch=True), max_size=90).map(" ".join))
def test_nothing_is_dropped_and_every_piece_fits(text: str) -> None:
    try:
        pieces = WRITER.split(text)
    except InvalidRequest:
        assert not any(map(str.isalnum, text))
        return
    assert "".join(" ".join(pieces).split()) == "".join(text.split())
    for piece in pieces:
        assert 0 < len(WRITER.ids(piece)) <= MAX_TOKENS


def test_rules() -> None:
    seen: list[str] = []
    rules = TextRules(replace=(("’", "'"), ("“", ""), ("”", "")), remove_semicolons=True, pad_short=True)
    writer = Writer(rules, lambda text: seen.append(text) or [0])  # type: ignore[func-returns-value]
    for text in ("“don’t?”, he said; yes and no", "go -", "(really)", "“so” it is,"):
        writer.ids(writer.clean(text))
    assert seen == ["Don't? he said, yes and no.", "        Go.", "        (really).", "        So it is."]


def test_it_speaks_with_the_voice_of_a_recording() -> None:
    bench, sounds = Bench(model=tiny_pocket("plain")), torch.sin(torch.arange(48_000) * torch.tensor([[0.02], [0.05]])) * 8_000
    for stream, sound in (("a", sounds[0]), ("b", sounds[1]), ("c", sounds[0])):
        reference = Reference(pcm=sound.short().numpy().tobytes(), sample_rate=24_000)
        sampling = Sampling(seed=1)
        bench.send(Generate(stream=stream, text="Hello.", accepted=0.0, sampling=sampling, reference=reference), stream)
        bench.run()
    assert bench.codes["a"] == bench.codes["c"] != bench.codes["b"]


def test_of_a_long_recording_the_first_half_minute_counts() -> None:
    model, sound = tiny_pocket("plain"), torch.sin(torch.arange(960_000) * 0.02) / 4
    voice = model.clone(Clip(sound, ""))
    assert len(voice) == LONGEST_VOICE
    assert torch.equal(voice.keys, model.clone(Clip(sound[:720_000], "")).keys)


def test_the_open_checkpoint_has_no_encoder_of_voices() -> None:
    model = tiny_pocket("plain")
    for weight in model.encoder.mimi.seanet.parameters():
        weight.zero_()
    model.ready()
    with pytest.raises(InvalidRequest, match=r"kyutai/pocket-tts\."):
        model.clone(Clip(torch.ones(24_000), ""))


def test_a_broken_tokenizer_is_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(WeightsError, match=r"tokenizer\.json cannot be read"):
        read_tokenizer(tmp_path, 10)
