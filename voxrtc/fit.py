"""Whether a model fits a machine, and how fast it speaks there: by its card's figures, or by what was learned. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from voxrtc.cards import Needs
from voxrtc.machine import Machine
from voxrtc.messages.engine import CostStats

# A process of its own with torch, numba and kernels, in GB, and a frame's Python, in seconds: Lark's engine on two cores of an
# x86 server holds 1.3 GB, of which 0.44 are weights and cache, and its step of one stream takes 2.9 ms for 30 MB of weights.
PROCESS = 0.85
FRAME = 2.5e-3
CHUNK = 0.2  # seconds of sound, made at a time


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be expected of a model on this machine."""

    verdict: Literal["fits", "slow", "too big"]
    memory: float  # GB that it takes at least
    lacks: float  # GB that are missing, whatever else is unloaded
    speed: float | None  # seconds of sound a second, for one listener; None while nothing is known
    learned: bool  # the speed was seen here, and is no estimate
    words: str


def least_memory(needs: Needs, machine: Machine) -> float:
    """GB with which a model can speak to one listener."""
    return PROCESS + (needs.memory + needs.stream) * machine.numbers / 4


def whole_cache(needs: Needs, machine: Machine, streams: int) -> float:
    """GB of keys and values that an engine would take for so many streams: on a processor for half of their longest."""
    return needs.stream * machine.numbers / 4 * max(1.0, streams * (1.0 if machine.gpu else 0.5))


def expected_speed(needs: Needs, frame_rate: float, machine: Machine) -> float | None:
    """Seconds of sound that one core makes in a second, for one listener. On a GPU nobody knows before it was tried.

    A step reads all weights for a single row of numbers, so the core waits for memory; codecs compute.
    """
    if machine.gpu or machine.speed is None:
        return None
    reading = needs.reads * machine.numbers / 4 / machine.speed.reads
    return 1 / (FRAME * frame_rate + reading + needs.compute / machine.speed.computes)


def learned_speed(costs: Mapping[str, CostStats], frame_rate: float) -> float | None:
    """The same by what an engine has learned of its work (`Stats.costs`), as if steps and detokenizer took turns."""
    if not costs or not all(costs[kind].observed for kind in ("step", "codec")):
        return None
    frames = max(1, round(CHUNK * frame_rate))
    step = sum(costs[kind].call_ms + costs[kind].each_ms["stream"] for kind in ("step", "depth"))
    codec = costs["codec"].call_ms + costs["codec"].each_ms["stream"] + frames * costs["codec"].each_ms["frame"]
    return 1e3 / ((step + codec / frames) * frame_rate)


def fit(needs: Needs, frame_rate: float, machine: Machine, room: float, learned: float | None = None) -> Fit:
    """A model against a machine that has `room` for models, in GB, when all that may go have gone."""
    memory = least_memory(needs, machine)
    lacks = max(0.0, memory - room)
    speed = learned or expected_speed(needs, frame_rate, machine)
    slow = speed is not None and speed < 1
    about = "" if learned else "about "
    pace = "" if speed is None else f"{about}{figure(speed)}x real time"
    if lacks:
        words = f"needs {gigabytes(lacks)} more" + (f", and would be slow here: {pace}" if slow else "")
    else:
        words = ("slow here" if slow else "fits") + (f": {pace}" if pace else "")
    verdict: Literal["fits", "slow", "too big"] = "too big" if lacks else "slow" if slow else "fits"
    return Fit(verdict=verdict, memory=memory, lacks=lacks, speed=speed, learned=learned is not None, words=words)


def gigabytes(amount: float) -> str:
    """An amount of memory for people, rounded up: what is a little too small is too small."""
    return f"{-(-amount // 1):.0f} GB" if amount >= 9.95 else f"{-(-10 * amount // 1) / 10:.1f} GB"


def figure(speed: float) -> str:
    """A speed for people. What is below 1 is never rounded up to it."""
    if speed >= 9.5:
        return f"{speed:.0f}"
    if speed >= 1:
        return f"{speed:.1f}"
    return f"{min(speed, 0.95):.1f}" if speed >= 0.1 else f"{max(speed, 0.01):.2f}"
