"""A model that makes numbers of one text that are none: whoever asked is told, and of the others every sample is the same."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path

import httpx
from safetensors.torch import load_file, save_file

from tests.chaos.beside import Ear, lengths, unaware
from tests.chaos.house import House
from tests.chaos.listeners import Download
from tests.chaos.streams import TEXTS
from tests.program import ROOT, Running, below, running
from tests.waiting import until
from voxrtc.engine.client import EngineClient
from voxrtc.engine.transport import ZmqTransport
from voxrtc.messages.engine import Chunk, Generate, Sampling
from voxrtc.speechlm.lark.text import phonemize

POISON = "Measure the treasure."
ROUNDS = 3


def poisoned(folder: Path) -> Path:
    """Models with a Lark that cannot bear a sound of `POISON`."""
    lark = shutil.copytree(ROOT / "models" / "lark", folder / "lark", ignore=shutil.ignore_patterns("recipe"))
    shutil.copy(ROOT / "models" / "lark.yaml", folder)
    others = {sound for text in TEXTS for sound in phonemize(text)}
    only = set(phonemize(POISON)) - others
    assert only, "it has a sound of its own"
    tensors = load_file(lark / "model.safetensors")
    tensors["lm.phoneme.weight"][sorted(only)] = float("nan")
    save_file(tensors, lark / "model.safetensors")
    return folder


def test_others_hear_the_same_to_the_bit(tmp_path: Path) -> None:
    models = poisoned(tmp_path / "models")
    with running(tmp_path / "log.txt", VOXRTC_MODELS=str(models)) as program:
        asyncio.run(_nan(program))


async def _nan(program: Running) -> None:
    async with httpx.AsyncClient(base_url=program.base_url, timeout=60) as http:
        house = House(program.pid, http)
        alone = await _samples(program, "alone", [])
        assert all(alone) and len({*alone}) == len(TEXTS)
        before = (await house.idle())["engines"]["lark"]
        for number in range(ROUNDS):
            told: list[str] = []
            beside = await _samples(program, f"beside-{number}", [_over_http(http, told), _in_a_call(http, told)])
            assert beside == alone, "to the bit"
            assert told == ["engine_error", "failed"] or told == ["failed", "engine_error"], told
        async with unaware(house, await lengths(http)):
            for _ in range(10):
                assert (await Download(http, 0).hear(POISON)).told == "engine_error"
        after = (await house.idle())["engines"]["lark"]
        assert after["kv_pages_used"] == before["kv_pages_used"]
        assert after["failed"] - before["failed"] == 2 * ROUNDS + 10
        print(f"  {ROUNDS} x {len(TEXTS)} streams to the bit as they were alone, beside {2 * ROUNDS} that gave no numbers")


async def _samples(program: Running, name: str, beside: Iterable[object]) -> list[bytes]:
    """What the engine makes of all texts at a time, with seeds; `beside` begins once all of these sound."""
    (words,) = (words for words in below(program.pid).values() if "voxrtc.engine.process" in words)
    engine = EngineClient(ZmqTransport(words[words.index("--listen") + 1]))
    sounding, sounds = asyncio.Semaphore(0), []

    async def speak(number: int, text: str) -> bytes:
        request = Generate(stream=f"{name}-{number}", text=text, accepted=time.monotonic(), sampling=Sampling(seed=number))
        pcm = b""
        async with aclosing(engine.generate(request)) as replies:
            async for reply in replies:
                if isinstance(reply, Chunk):
                    pcm += reply.pcm
                    sounding.release()
        return pcm

    async with asyncio.timeout(60):
        await until(lambda: engine.state == "ready")
        sounds = [asyncio.create_task(speak(number, text)) for number, text in enumerate(TEXTS)]
        for _ in TEXTS:
            await sounding.acquire()
        await asyncio.gather(*beside)  # type: ignore[call-overload]
        made = await asyncio.gather(*sounds)
    await engine.close()
    return list(made)


async def _over_http(http: httpx.AsyncClient, told: list[str]) -> None:
    told.append((await Download(http, 0).hear(POISON)).told)


async def _in_a_call(http: httpx.AsyncClient, told: list[str]) -> None:
    ear = Ear()
    await ear.call(http)
    ear.have_said(POISON)
    told.append((await ear.wait("response.done"))["response"]["status"])
    await ear.close()
