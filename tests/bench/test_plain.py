"""The plain loop says what the engine says, so that both are compared at the same work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tests.engine.toy import Bench
from voxrtc.bench.baselines.generate import speak
from voxrtc.bench.baselines.plain import PlainServer
from voxrtc.messages.engine import Cancel, Chunk, Ended, EngineReply, Failed, Generate, GetStats, Sampling, Stats
from voxrtc.messages.model import GetModels, ModelInfo
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.lark.model import Lark

TEXT = "The train to the coast leaves at ten. Would you like some tea?"


@pytest.fixture(scope="module")
def loaded() -> tuple[ModelInfo, Lark]:
    info, lark = registry.load(ROOT / "models", "lark")
    assert isinstance(lark, Lark)
    return info, lark


@pytest.mark.parametrize("chunk", [4, 32])
def test_the_loop_makes_the_engines_sound(loaded: tuple[ModelInfo, Lark], chunk: int) -> None:
    engine = Bench(model=loaded[1])
    engine.speak("a", TEXT, seed=5)
    engine.run()
    pcm = b"".join(reply.pcm for reply in engine.replies["a"] if isinstance(reply, Chunk))
    sound = torch.cat(list(speak(loaded[1], TEXT, chunk, seed=5))).clamp(-1, 1).numpy()
    assert len(sound) == len(pcm) // 2 == 600 * len(engine.codes["a"])
    assert np.abs(sound - np.frombuffer(pcm, "<i2") / 32767).max() < 1e-3


def test_requests_wait_their_turn_and_can_be_cancelled(loaded: tuple[ModelInfo, Lark]) -> None:
    replies: list[EngineReply] = []
    with ThreadPoolExecutor(1) as executor:
        server = PlainServer(loaded[1], loaded[0], executor, chunk=8)
        for stream, text in (("spoken", "Yes."), ("cancelled", TEXT), ("empty", "")):
            request = Generate(stream=stream, text=text, accepted=0.0, sampling=Sampling(seed=1))
            server.submit(request, replies.append)
        server.submit(Cancel(stream="cancelled"), replies.append)
        server.submit(GetModels(call=1), replies.append)
    server.submit(GetStats(call=2), replies.append)
    chunks = [reply for reply in replies if isinstance(reply, Chunk)]
    assert {chunk.stream for chunk in chunks} == {"spoken"} and chunks[0].timing and not chunks[-1].timing
    reasons = {reply.stream: reply.reason for reply in replies if isinstance(reply, Ended)}
    assert reasons["spoken"] == "done" and reasons["cancelled"] == "cancelled"
    assert not [reply for reply in replies if isinstance(reply, Failed) and reply.stream != "empty"]
    assert isinstance(replies[-1], Stats) and not replies[-1].streams
