"""Whether our own voice, leaked from a loudspeaker into the microphone, is taken for a person; and whether a person is heard
over it.

`python -m voxrtc.bench echo`. Recordings of Lark in a synthetic room, silero as it is, no browser: so this is what would
happen if the browser's echo canceller did nothing. AECMOS (speechmos; `far` is our voice alone, `both` with a person over it)
rates the microphone as it is and as it counts for turns, without what the guard takes for ours: 5 is best; `other` is what
else is wrong with the sound.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from voxrtc.bench.room import Floats, another_voice, as_loud, leaked
from voxrtc.bench.turns import SPEECH, sentences
from voxrtc.chat.echo import EchoGuard, guarded
from voxrtc.chat.turns import Started, Turns, TurnSettings
from voxrtc.chat.voice import VoiceDetector
from voxrtc.recent import quantile
from voxrtc.rtc.microphone import BLOCK, BLOCK_SECONDS, RATE
from voxrtc.rtc.sound import FRAME, FRAME_SECONDS
from voxrtc.rtc.sound import RATE as PLAYED_RATE

DELAYS = (0.05, 0.15, 0.3)  # seconds
LEVELS = (-20, -10)  # dB
EVERY, LASTS = 4.1, 1.5  # seconds from one interruption to the next, and of each
RATED = 19.0  # seconds that AECMOS takes


@dataclass(frozen=True)
class Heard:
    """What came of a microphone: when turns began, and its sound without what was taken for ours."""

    onsets: list[float]
    kept: Floats


def hear(microphone: Floats, played: Floats, guard: EchoGuard | None) -> Heard:
    """Both at 16 kHz, full scale 1, as they go by together: frame by frame and block by block."""
    frames = (soxr.resample(played, RATE, PLAYED_RATE) * 32767).astype(np.int16)
    blocks = (np.clip(microphone, -1, 1) * 32767).astype(np.int16)[: len(microphone) // BLOCK * BLOCK].reshape(-1, BLOCK)
    detector = VoiceDetector()
    detect = guarded(detector, guard) if guard else detector
    turns, onsets, kept, sent = Turns(TurnSettings()), [], blocks.copy(), 0
    for number, block in enumerate(blocks):
        now = (number + 1) * BLOCK_SECONDS
        while guard and (sent + 1) * FRAME_SECONDS <= now:
            frame = frames[sent * FRAME : (sent + 1) * FRAME]
            guard.played(frame if len(frame) == FRAME else None)
            sent += 1
        probability = detect(block)
        if isinstance(turns.hear(now - BLOCK_SECONDS, now, probability), Started):
            onsets.append(now)
        if guard and guard.possible and probability == 0:
            kept[number] = 0
    return Heard(onsets, kept.reshape(-1).astype(np.float32) / 32768)


def interrupted(played: Floats, person: Floats, decibels: float) -> tuple[Floats, list[float]]:
    """The leak with a person over it now and then, and when each time begins."""
    person = as_loud(another_voice(person), played)
    microphone, begins = leaked(played, decibels, DELAYS[1]), []
    for begin in np.arange(2.0, len(played) / RATE - LASTS, EVERY):
        said = person[round(begin * RATE) % (len(person) - 2 * RATE) :][: round((LASTS + 0.5) * RATE)]
        said = said[np.flatnonzero(np.abs(said) > 0.1 * np.abs(said).max())[0] :][: round(LASTS * RATE)]
        at = round(begin * RATE)
        microphone[at : at + len(said)] += said
        begins.append(float(begin))
    return microphone, begins


def reactions(onsets: list[float], begins: list[float]) -> list[float]:
    """Seconds from each beginning to the onset that follows while it lasts; infinite where there is none."""
    return [min((at - begin for at in onsets if begin < at <= begin + LASTS), default=float("inf")) for begin in begins]


def aecmos(played: Floats, microphone: Floats, kept: Floats, kind: str) -> str:
    from speechmos import aecmos as model

    length = min(len(kept), round(RATED * RATE))
    sample = {
        "lpb": np.clip(played[:length], -1, 1),
        "mic": np.clip(microphone[:length], -1, 1),
        "enh": np.clip(kept[:length], -1, 1),
    }
    rated = model.run(sample, sr=RATE, talk_type=kind)
    return f"{rated['echo_mos']:.2f} / {rated['deg_mos']:.2f}"


def main(arguments: list[str]) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench echo", description=__doc__)
    parser.add_argument("--speech", type=Path, default=SPEECH, help="folder of the recordings")
    options = parser.parse_args(arguments)
    sound = np.concatenate([sentence.sound for sentence in sentences(options.speech)])
    played = sound.astype(np.float32) / 32768
    person = np.roll(played, len(played) // 2)
    minutes = len(played) / RATE / 60
    print(f"Our voice alone, {minutes:.1f} minutes. False onsets at each delay; without the guard; AECMOS: echo / other")
    for decibels in LEVELS:
        heard = [hear(leaked(played, decibels, delay), played, EchoGuard()) for delay in DELAYS]
        microphone = leaked(played, decibels, DELAYS[1])
        unguarded = hear(microphone, played, None)
        counts = ", ".join(f"{1000 * delay:.0f} ms: {len(each.onsets)}" for delay, each in zip(DELAYS, heard, strict=True))
        rated = [aecmos(played, microphone, kept, "st") for kept in (microphone, heard[1].kept)]
        print(f"{decibels:4} dB  {counts}; {len(unguarded.onsets)}; far, as it is {rated[0]}, guarded {rated[1]}", flush=True)
    print("A person over it, as loud as we are at the loudspeaker")
    for decibels in LEVELS:
        microphone, begins = interrupted(played, person, decibels)
        heard_both = hear(microphone, played, EchoGuard())
        took = reactions(heard_both.onsets, begins)
        rated = [aecmos(played, microphone, kept, "dt") for kept in (microphone, heard_both.kept)]
        print(
            f"{decibels:4} dB  heard {sum(np.isfinite(took))} of {len(took)} times, after {1000 * np.median(took):.0f} ms"
            f" (p90 {1000 * quantile(took, 0.9):.0f}); both, as it is {rated[0]}, guarded {rated[1]}",
            flush=True,
        )
