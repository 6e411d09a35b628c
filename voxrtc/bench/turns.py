"""How long a person is waited for, and how often cut off: `semantic_vad` beside `server_vad`, on recorded sentences.

`python -m voxrtc.bench turns`. Each sentence is heard as it is, and with a pause amid it, which is no end. Silero, Moonshine
and smart-turn (where its wheel is installed) are the real ones; they work while the sound's clock stands, and their answers
come when they would have come. `semantic_vad` with words alone is what holds without that wheel.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from voxrtc.asr import cues
from voxrtc.asr.client import Reader
from voxrtc.asr.moonshine import Moonshine
from voxrtc.asr.queue import HearingQueue, Key
from voxrtc.asr.smart_turn import SmartTurn, weights
from voxrtc.asr.turn_end import together
from voxrtc.chat.input_buffer import InputBuffer
from voxrtc.chat.turns import TurnSettings
from voxrtc.chat.voice import VoiceDetector
from voxrtc.recent import quantile
from voxrtc.rtc.microphone import BLOCK, BLOCK_SECONDS, RATE
from voxrtc.rtc.sound import Samples

SPEECH = Path("tests/golden/speech")
PAUSES = (0.3, 0.5, 0.7, 0.9)  # seconds
LEAD, TAIL = 0.5, 3.2  # seconds of silence around a sentence
QUIET = 0.02  # of the peak


@dataclass(frozen=True)
class Sentence:
    """A recording (16 kHz), its words, and places between words where a pause does not end it."""

    text: str
    sound: Samples
    cuts: list[int]

    def paused(self, cut: int, seconds: float) -> Samples:
        return np.concatenate([self.sound[:cut], silence(seconds), self.sound[cut:]])


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), np.int16)


def sentences(folder: Path = SPEECH) -> list[Sentence]:
    """All of them, in Lark's voice. Raises `FileNotFoundError`."""
    sound, rate = soundfile.read(folder / "sentences.ogg", dtype="int16")
    assert rate == RATE
    places = json.loads((folder / "sentences.json").read_text("utf-8"))
    return [Sentence(each["text"], sound[each["begin"] : each["end"]], each["cuts"]) for each in places]


@dataclass(frozen=True)
class Look:
    """What the models see in some sound, and the seconds that they took."""

    words: str
    sounds_over: float  # 0.5 where nothing tells
    took: float


class Models:
    """The real ones, and by which clock they take their time. What was seen once is remembered, since all ways to find ends
    look at the same sounds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._transcribe = Moonshine()
        path = weights()
        self._over = SmartTurn(path) if path else None
        self._looks: dict[bytes, Look] = {}
        self._voices: dict[bytes, list[float]] = {}

    def look(self, pcm: bytes) -> Look:
        if pcm not in self._looks:
            started = self._clock()
            words = self._transcribe(pcm)
            over = self._over(pcm) if self._over else 0.5
            self._looks[pcm] = Look(words, over, self._clock() - started)
        return self._looks[pcm]

    def voice(self, sound: Samples) -> list[float]:
        """The probability of speech of each block."""
        key = sound.tobytes()
        if key not in self._voices:
            detect = VoiceDetector()
            self._voices[key] = [detect(sound[at : at + BLOCK]) for at in range(0, len(sound) - BLOCK + 1, BLOCK)]
        return self._voices[key]


def key(utterance: str) -> Key:
    return b"", utterance


class Ears:
    """A `Transcriber` on the clock of the sound: what it says comes as late as it takes. It looks at pauses alone."""

    def __init__(self, models: Models, judge: Judge) -> None:
        self._models, self._judge = models, judge
        self._queue = HearingQueue()
        self._readers: dict[Key, Reader] = {}
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._wanted = False
        self._free = 0.0
        self.now = 0.0

    def begin(self, utterance: str, reader: Reader, pcm: bytes) -> None:
        self._readers[key(utterance)] = reader
        self._queue.begin(key(utterance), self.now)
        self.hear(utterance, pcm)

    def hear(self, utterance: str, pcm: bytes) -> None:
        self._queue.hear(key(utterance), pcm, self.now)

    def look(self, utterance: str) -> None:
        self._queue.want(key(utterance))
        self._wanted = True
        self._read_wanted()

    def finish(self, utterance: str, speech: int) -> None:
        words = self._queue.finish(key(utterance), speech)
        if words is None:
            return self._read()
        self._later(0.0, partial(self._readers[key(utterance)].transcript, words))

    def forget(self, utterance: str) -> None:
        self._queue.forget(key(utterance))

    def _read_wanted(self) -> None:
        """One look at a time; who pauses meanwhile is looked at afterwards, once."""
        if self._wanted and self._free <= self.now:
            self._read()

    def _read(self) -> None:
        utterance = self._queue.next(self.now)
        assert utterance
        utterance.wanted = self._wanted = False
        before, begin = utterance.settled
        look, reader, heard = self._models.look(bytes(utterance.pcm[begin:])), self._readers[utterance.key], len(utterance.pcm)
        words = f"{before} {look.words}".strip()
        if utterance.finished:
            return self._later(look.took, partial(reader.transcript, words))
        self._queue.looked(utterance, heard, words, look.took, self.now, paused=True)
        self._later(look.took, partial(reader.hypothesis, words, heard, self._judge(look)))

    def advance(self, seconds: float) -> None:
        """The sound goes on; what is due by then is told."""
        self.now += seconds
        while self._due and self._due[0][0] <= self.now:
            self._due.pop(0)[1]()
        self._read_wanted()

    def _later(self, took: float, tell: Callable[[], None]) -> None:
        self._free = max(self._free, self.now) + took
        self._due.append((self._free, tell))


Judge = Callable[[Look], float]


def by_words(look: Look) -> float:
    return cues.finished(look.words)


def by_both(look: Look) -> float:
    return together(cues.finished(look.words), look.sounds_over)


class Listener:
    """What an `InputBuffer` needs of its session: keeps when turns ended, and their words and when they were there."""

    def __init__(self, ears: Ears) -> None:
        self._ears = ears
        self.ends: list[float] = []
        self.words: list[float] = []
        self.transcripts: list[str] = []

    def tell(self, type: str, **fields: Any) -> None:
        if type == "input_audio_buffer.speech_stopped":
            self.ends.append(self._ears.now)

    def committed(self, id: str) -> None: ...
    def finished(self, id: str) -> None: ...

    def said(self, id: str, transcript: str | None) -> None:
        self.words.append(self._ears.now)
        self.transcripts.append(transcript or "")

    ending = False

    def hold(self) -> bool:
        return False

    def resume(self) -> None: ...
    def interrupt(self) -> None: ...


def listen(sound: Samples, settings: TurnSettings, models: Models, judge: Judge, lead: float = LEAD) -> Listener:
    """Hear `sound`, after `lead` seconds of silence and before more, by itself."""
    heard = np.concatenate([silence(lead), sound, silence(TAIL)])
    voice = iter(models.voice(heard))
    ears = Ears(models, judge)
    listener = Listener(ears)
    buffer = InputBuffer(listener, ears, lambda block: next(voice), settings)
    for at in range(0, len(heard) - BLOCK + 1, BLOCK):
        ears.advance(BLOCK_SECONDS)
        buffer.heard(heard[at : at + BLOCK])
    return listener


@dataclass(frozen=True)
class Result:
    """Of one way to find ends: seconds from the end of speech to that of the turn, and to its words; cut-offs by pause."""

    ends: list[float]
    words: list[float]
    cut_off: dict[float, float]  # share of all pauses so long

    def row(self) -> str:
        figures = [statistics.median(self.ends), quantile(self.ends, 0.9), statistics.median(self.words)]
        cells = [f"{1000 * each:9.0f}" for each in figures]
        return "".join([*cells, *(f"{share:9.0%}" for share in self.cut_off.values())])


def measure(said: list[Sentence], settings: TurnSettings, models: Models, judge: Judge) -> Result:
    """All sentences, whole and with pauses."""
    ends, words, cut_off = [], [], {}
    for sentence in said:
        heard = listen(sentence.sound, settings, models, judge)
        over = LEAD + _end(sentence.sound)
        ends.append(heard.ends[-1] - over)
        words.append(heard.words[-1] - over)
    for pause in PAUSES:
        paused = [sentence.paused(cut, pause) for sentence in said for cut in sentence.cuts]
        cut_off[pause] = float(np.mean([len(listen(each, settings, models, judge).ends) > 1 for each in paused]))
    return Result(ends, words, cut_off)


def _end(sound: Samples) -> float:
    loud = np.flatnonzero(np.abs(sound.astype(np.int32)) > QUIET * np.abs(sound.astype(np.int32)).max())
    return float(loud[-1]) / RATE


def main(arguments: list[str]) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench turns", description=__doc__)
    parser.add_argument("--speech", type=Path, default=SPEECH, help="folder of the recordings")
    parser.add_argument("--every", type=int, default=1, help="take each so manieth sentence only")
    options = parser.parse_args(arguments)
    said, models = sentences(options.speech)[:: options.every], Models()
    ways: list[tuple[str, TurnSettings, Judge]] = [
        ("server_vad, 500 ms", TurnSettings(), by_both),
        ("server_vad, 800 ms", TurnSettings(silence=0.8), by_both),
        ("semantic_vad, words alone", TurnSettings(eagerness="auto"), by_words),
        ("semantic_vad, auto", TurnSettings(eagerness="auto"), by_both),
        ("semantic_vad, high", TurnSettings(eagerness="high"), by_both),
        ("semantic_vad, low", TurnSettings(eagerness="low"), by_both),
    ]
    cuts = sum(len(sentence.cuts) for sentence in said)
    print(f"{len(said)} sentences; {cuts} pauses of each length amid them. From the end of speech, ms; turns ended by a pause")
    pauses = "".join(f"{1000 * pause:6.0f} ms" for pause in PAUSES)
    print(f"{'':28}{'end':>9}{'p90':>9}{'words':>9}{pauses}")
    for name, settings, judge in ways:
        print(f"{name:28}{measure(said, settings, models, judge).row()}", flush=True)
