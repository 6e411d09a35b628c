"""CosyVoice 2 hears text that is still being written in turn with its codes, and says what it says whenever the text comes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.engine.test_running import begin, extend, sound
from tests.engine.toy import Bench
from tests.speechlm.families import tiny_cosyvoice2
from tests.tiny import noise, write
from voxrtc.messages.engine import Chunk, Ended, Failed, Generate, Reference, Sampling
from voxrtc.speechlm.base import Clip, Utterance
from voxrtc.speechlm.cosyvoice2.model import CosyVoice2
from voxrtc.speechlm.cosyvoice2.running import CODES, MOST, TEXT, TURN, Script, read
from voxrtc.speechlm.cosyvoice2.text import Writer

SENTENCE = "The train to the coast leaves at ten, and it is never late. Why not?"
WORDS = [
    "the",
    "train,",
    "at",
    "10:30",
    "p.m.",
    "$5",
    "Dr.",
    "3只猫，",
    "[laughter]",
    "<strong>so</strong>",
    "Why?",
    "你好，世界。",
    "don't",
    "“No.”",
    "😀",
    "x" * 90,
]


@pytest.fixture(scope="module")
def cosy(tmp_path_factory: pytest.TempPathFactory) -> CosyVoice2:
    model = tiny_cosyvoice2(write("cosyvoice2", tmp_path_factory.mktemp("cosyvoice2")))
    model.network.head.bias[model.network.rows.end] = 6.0  # its random weights would find no end
    return model


def scripts(writer: Writer, parts: list[str]) -> list[Script]:
    """The whole ones that become of a text that comes in these parts; what was read of one before it was whole begins it."""
    found, text, at, read_so_far = [], "", 0, ()
    for number, part in enumerate(parts):
        text, final = text + part, number == len(parts) - 1
        while script := read(writer, text[at:], final):
            assert script.ids[: len(read_so_far)] == read_so_far
            read_so_far = script.ids
            if not script.whole:
                break
            found.append(script)
            at, read_so_far = at + script.characters, ()
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=40), st.sampled_from([" ", "  ", "\n", ""]), st.data())
@example(["one,"] * 90, " ", None)
def test_a_text_is_read_the_same_however_it_comes(
    cosy: CosyVoice2, words: list[str], blank: str, data: st.DataObject | None
) -> None:
    text = blank.join(words)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12))) if data else range(len(text))
    parts = [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]
    whole = scripts(cosy.writer, [text])
    assert scripts(cosy.writer, parts) == whole
    assert sum(script.characters for script in whole) >= len(text.rstrip()) or not any(map(str.isalnum, words[-1]))
    for script in whole:
        assert 0 < len(script.ids) <= MOST and [word.end for word in script.words] == list(
            range(1, len(script.ids) // TEXT + 1)
        )
        assert [word.characters for word in script.words] == sorted(word.characters for word in script.words)


def test_a_lines_end_is_a_blank(cosy: CosyVoice2) -> None:
    lines, blanks = (
        read(cosy.writer, text, True) for text in ("Yes.\nThe train, at ten.\n\nNo", "Yes. The train, at ten.  No")
    )
    assert lines == blanks


def laid_out(cosy: CosyVoice2, text: str, codes: list[int]) -> list[int]:
    """Rows as the reference's `inference_bistream` takes them in."""
    rows, ids = cosy.network.rows, cosy.writer.ids(text)
    spoken = [rows.texts + code for code in codes if code < rows.end]
    row, turns = [rows.start], len(ids) // TEXT
    for turn in range(turns):
        row += ids[TEXT * turn :][:TEXT] + spoken[CODES * turn :][:CODES]
    return row + ids[TEXT * turns :] + [rows.speak] + spoken[CODES * turns :]


@pytest.mark.parametrize("text", [SENTENCE, "The train to the coast leaves.", "Well, it was ten."])
def test_text_and_codes_are_taken_in_as_the_reference_does(
    cosy: CosyVoice2, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    embed = cosy.network.embed.forward
    monkeypatch.setattr(cosy.network.embed, "forward", lambda rows: seen.extend(rows.tolist()) or embed(rows))
    bench = Bench(model=cosy)
    begin(bench, "a", text, seed=1)
    extend(bench, "a", "", final=True)
    bench.run()
    codes = [code for (code,) in bench.codes["a"]]
    assert codes[-1] == cosy.network.rows.end and seen == laid_out(cosy, text, codes)
    heard = sum(code < cosy.network.rows.end for code in codes)
    assert heard > CODES * (len(cosy.writer.ids(text)) // TEXT), "speech ends behind the last turn"
    assert sum(len(reply.pcm) for reply in bench.replies["a"] if isinstance(reply, Chunk)) == 2 * 960 * heard


@pytest.mark.parametrize(("size", "lag"), [(1, 1), (11, 0)])
def test_its_speech_does_not_depend_on_when_its_text_came(cosy: CosyVoice2, size: int, lag: int) -> None:
    whole, parts = Bench(model=cosy), Bench(model=cosy)
    begin(whole, "a", SENTENCE, seed=1)
    extend(whole, "a", "", final=True)
    whole.run()
    parts.worker.lag = lag
    begin(parts, "a", "", seed=1)
    for at in range(0, len(SENTENCE), size):
        extend(parts, "a", SENTENCE[at : at + size])
        parts.run()
    extend(parts, "a", "", final=True)
    parts.run()
    assert parts.codes["a"] == whole.codes["a"]
    made, expected = (np.frombuffer(sound(bench, "a"), "<i2").astype(int) for bench in (parts, whole))
    assert made.shape == expected.shape and np.abs(made - expected).max() <= 2, "as calls are rounded"
    assert isinstance(parts.replies["a"][-1], Ended)


def test_a_listener_is_told_how_much_is_said_by_the_sound_alone(cosy: CosyVoice2) -> None:
    """A turn's five tokens are said when its fifteen codes are, whatever steps took in text."""
    bench = Bench(model=cosy)
    begin(bench, "a", SENTENCE, seed=1)
    extend(bench, "a", "", final=True)
    bench.run()
    spoken = [each for reply in bench.replies["a"] if isinstance(reply, Chunk) for each in reply.spoken]
    turns = len(cosy.writer.ids(SENTENCE)) // TEXT
    assert [each.end for each in spoken[:turns]] == pytest.approx([CODES / 25 * (i + 1) for i in range(turns)])
    assert spoken[-1].characters == len(SENTENCE) and spoken[-1].end == pytest.approx(len(sound(bench, "a")) / 48_000)


def test_what_waits_for_text_holds_up_nobody(cosy: CosyVoice2) -> None:
    bench = Bench(model=cosy)
    begin(bench, "waits", "The train to the coast leaves at ", seed=1)
    bench.speak("other", "Yes.", seed=2)
    bench.run()
    made = len(bench.codes["waits"])
    assert made % TURN == CODES + 1 and isinstance(bench.replies["other"][-1], Ended)
    extend(bench, "waits", "ten.", final=True)
    bench.run()
    assert isinstance(bench.replies["waits"][-1], Ended) and len(bench.codes["waits"]) > made


def test_its_speech_is_in_the_voice_of_the_recording(cosy: CosyVoice2) -> None:
    """Also a piece that is too short for turns, and every one after the first."""
    voice = cosy.clone(Clip(0.3 * noise(30_000), ""))
    for text in (SENTENCE, "Yes."):
        prompt = cosy.extend(None, Utterance(text, imitation=voice), final=True)
        assert prompt and prompt.data.voice.sound is voice.sound
    pcm = (0.3 * noise(30_000) * 32767).short().numpy().tobytes()
    made = []
    for reference in (None, Reference(pcm=pcm, sample_rate=24_000)):
        bench = Bench(model=cosy)
        asked = Generate(stream="a", text="Yes", accepted=0.0, sampling=Sampling(seed=1), reference=reference, final=False)
        bench.send(asked, "a")
        extend(bench, "a", ". " + SENTENCE, final=True)
        bench.run()
        assert isinstance(bench.replies["a"][-1], Ended)
        made.append(bench)
    nobody, imitated = (np.frombuffer(sound(bench, "a"), "<i2").astype(int) for bench in made)
    assert made[0].codes == made[1].codes, "the flow alone has the voice"
    tail = -960 * 10
    assert np.abs(nobody[tail:] - imitated[tail:]).max() > 100


def test_few_words_are_heard_at_once_and_none_refused(cosy: CosyVoice2) -> None:
    prompt = cosy.extend(None, Utterance("Yes. "), final=True)
    rows: Tensor = cosy.preprocess(Utterance("Yes.")).data.rows
    assert prompt and prompt.reach is None and torch.equal(prompt.data.rows, rows) and prompt.characters == 4
    assert cosy.extend(None, Utterance("Yes. No"), final=False) is None
    bench = Bench(model=cosy)
    begin(bench, "a", " … ", seed=1)
    extend(bench, "a", "", final=True)
    bench.run()
    assert isinstance(bench.replies["a"][-1], Failed)
