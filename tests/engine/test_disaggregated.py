"""The product's way with the detokenizer in a process of its own: settings, engine, sound. With Lark, and a real process."""

from __future__ import annotations

import numpy as np

from voxrtc.engine.loop import Engine
from voxrtc.engine.process import build
from voxrtc.engine.worker import Worker
from voxrtc.messages.engine import Chunk, Ended, EngineReply, Generate, Sampling
from voxrtc.settings import Settings

TEXTS = ("Yes.", "The quick brown fox jumps over the lazy dog.")


def said(engine: Engine) -> list[np.ndarray]:
    """Both texts, spoken at a time."""
    replies: dict[str, list[EngineReply]] = {text: [] for text in TEXTS}
    for seed, (text, to) in enumerate(replies.items()):
        engine.submit(Generate(stream=text, text=text, accepted=engine.clock(), sampling=Sampling(seed=seed)), to.append)
    while (ran := engine.run_once()) or engine.streams:
        if not ran:
            engine.wait()
    assert all(isinstance(to[-1], Ended) for to in replies.values())
    chunks = [[reply for reply in to if isinstance(reply, Chunk)] for to in replies.values()]
    return [np.frombuffer(b"".join(chunk.pcm for chunk in each), "<i2") for each in chunks]


def test_it_sounds_the_same_from_two_processes() -> None:
    apart = build(Settings(max_streams=2, disaggregated=True))
    together = Engine(Worker(apart.worker.model, 2), apart.info)
    here, there = (said(engine) for engine in (together, apart))
    assert [len(sound) for sound in here] == [len(sound) for sound in there]
    assert max(np.abs(x.astype(int) - y).max() for x, y in zip(here, there, strict=True)) <= 1
    apart.worker.sound.stop()
