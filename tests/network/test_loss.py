"""A bad network that still is one: 2% loss, 30 ms jitter, 100 ms round trip."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import Browser, Playwright

from tests.e2e import ear
from tests.e2e.desk import PATIENCE, Desk
from tests.e2e.test_speech import SENTENCES
from tests.e2e.test_talk import silence, talking, voice
from tests.network.conditions import Conditions
from tests.network.conftest import FLAG, RUNS, opened
from tests.network.machines import Machines
from tests.rtc.browser import Browser as Client
from tests.speech import SAID

BAD = Conditions(loss=0.02, delay=0.05, jitter=0.03)


def heard(desk: Desk) -> list[np.ndarray]:
    """The sentences as they were heard."""
    return [ear.prepare(*desk.hear(text)) for text in SENTENCES]


def concealed(desk: Desk) -> float:
    """The share of the call's samples that had to be made up, without silence that is not sent: the browser counts that, too. A
    tunnel does not; it was the first way that opened where packets of a handshake were lost."""
    stats = desk.stats()
    return float((stats["concealedSamples"] - stats.get("silentConcealedSamples", 0)) / stats["totalSamplesReceived"])


def test_speech_over_a_bad_network_is_understood(browser: Browser, server: httpx.Client, wire: Machines) -> None:
    """Nearly every word, and without much damage. Good and bad by turns, since other work on the machine does damage, too."""
    sounds: dict[str, list[np.ndarray]] = {"good": [], "bad": []}
    for _ in range(RUNS):
        for name, conditions in (("good", Conditions()), ("bad", BAD)):
            with opened(browser, server) as desk:
                wire.set(conditions)
                sounds[name] += heard(desk)
                told = f"{name}: {desk.page.evaluate('voxrtc.way')}, {concealed(desk):.1%} concealed,"
                print(told, *wire.set(Conditions())["down"].items())
    words = {name: ear.wer(SENTENCES * RUNS, [ear.transcribe(sound) for sound in each]) for name, each in sounds.items()}
    quality = {name: np.median([ear.plcmos(sound) for sound in each]) for name, each in sounds.items()}
    print(*(f"{name}: WER {words[name]:.1%}, PLCMOS {quality[name]:.2f}" for name in sounds), sep="\n")
    assert words["bad"] <= 0.05
    assert quality["good"] - quality["bad"] <= 0.4


def test_a_person_over_a_bad_network_is_understood(
    playwright: Playwright, server: httpx.Client, wire: Machines, tmp_path: Path
) -> None:
    """The other way: what the microphone sends arrives with gaps, and late."""
    said = ["boat", "book", "boat"] * RUNS
    sound = [part for name in said for part in (silence(1.2), voice(name))]
    wire.set(BAD)
    with talking(playwright, server, tmp_path / "said.wav", *sound, flags=[FLAG.format(server.base_url)]) as desk:
        desk.talk()
        heard = [desk.await_lines(count)[count - 1] for count in range(1, len(said) + 1)]
    rate = ear.wer([SAID[name] for name in said], heard)
    print(f"{rate:.1%} of the words wrong:", *heard, sep="\n")
    assert rate <= 0.05


def test_events_arrive_whole_and_in_order(server: httpx.Client, wire: Machines) -> None:
    """Over the data channel, to a client that is no browser (aiortc), where one packet in ten is lost."""
    texts = [f"This is message number {number}. " * 40 for number in range(50)]
    wire.set(replace(BAD, loss=0.1))

    async def talk() -> list[str]:
        client, done = Client(), "conversation.item.done"
        async with httpx.AsyncClient(base_url=server.base_url, timeout=30) as http:
            headers = {"content-type": "application/sdp"}
            answer = await http.post("/v1/realtime/calls", content=await client.offer(), headers=headers)
        await client.accept(answer.text)
        for text in texts:
            client.write(text)
        async with asyncio.timeout(PATIENCE / 1000):
            while len(came := [event["item"] for event in client.events if event["type"] == done]) < len(texts):
                await asyncio.sleep(0.05)
        await client.close()
        return [item["content"][0]["text"] for item in came]

    with wire.person.inside(), ThreadPoolExecutor(1) as thread:  # a thread, since Playwright's loop runs in this one
        assert thread.submit(asyncio.run, talk()).result() == texts
