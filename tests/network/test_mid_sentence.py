"""The network fails while somebody is listening; the conversation goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser

from tests.e2e import ear
from tests.e2e.desk import Desk
from tests.network.conditions import Conditions
from tests.network.conftest import RUNS, opened, succeeded
from tests.network.machines import ELSEWHERE, PERSON, Machines

QUESTION, ANOTHER = "What do you see?", "Is that all?"
ANSWER = "The river runs past the mill, under the bridge, and on through the quiet fields to the sea. Few boats go so far."
END = "Yes, that is all."
WRONG = 0.1  # of the words: a word that is heard twice, since less than a word is not known, is no harm
AMID = 1_500  # ms of the answer


def ask(desk: Desk, text: str) -> None:
    """Type to the voice; the recording begins with that."""
    desk.page.locator("[name=message]").fill(text)
    desk.page.evaluate("recorder.from(() => document.querySelector('[name=send]').click())")
    desk.await_sound()


def listen(desk: Desk, chat: FastAPI, happens: Callable[[], None]) -> tuple[float, float]:
    """Something happens amid an answer. The share of its words that was misheard, and seconds of silence amid it.

    Then the conversation goes on where it was: the other side knows all of it.
    """
    chat.state.answers[:], chat.state.asked[:] = [ANSWER, END], []
    ask(desk, QUESTION)
    desk.page.wait_for_timeout(AMID)
    happens()
    desk.await_state("ready", "disconnected")
    assert desk.state == "ready", desk.trouble
    desk.page.wait_for_timeout(400)  # what the jitter buffer still holds
    samples, rate = desk.take()
    ask(desk, ANOTHER)
    desk.await_state("ready")
    assert not desk.trouble
    told = [message["content"] for message in chat.state.asked[1]["messages"][1:]]
    assert told == [QUESTION, ANSWER, ANOTHER]
    sound = ear.prepare(samples, rate)
    return ear.wer([ANSWER], [ear.transcribe(sound)]), longest_silence(sound)


def longest_silence(sound: np.ndarray) -> float:
    """Seconds, of 16 kHz sound."""
    loud = (abs(sound) > ear.QUIET * abs(sound).max()).nonzero()[0]
    return float(max(loud[1:] - loud[:-1])) / ear.RATE


@dataclass
class Table:
    """Somebody listens at the page, with a fresh window each time."""

    browser: Browser
    server: httpx.Client
    chat: FastAPI
    wire: Machines

    def once(self, happens: Callable[[Desk], object]) -> str:
        with opened(self.browser, self.server) as desk:
            wrong, silence = listen(desk, self.chat, lambda: happens(desk))
        assert wrong <= WRONG, f"{wrong:.0%} of the words wrong"
        return f"{wrong:.0%} of the words wrong, silent for {silence:.1f} s"


@pytest.fixture
def table(browser: Browser, server: httpx.Client, chat: FastAPI, wire: Machines) -> Table:
    return Table(browser, server, chat, wire)


def test_five_seconds_without_a_network(table: Table) -> None:
    def happens(desk: Desk) -> None:
        table.wire.set(Conditions(cut=True))
        desk.page.wait_for_timeout(5_000)
        table.wire.set(Conditions())

    assert succeeded(lambda: table.once(happens)) == RUNS


def test_another_network(table: Table) -> None:
    """The address changes; what was sent to the old one is lost."""
    person, addresses = table.wire.person, [PERSON, ELSEWHERE]

    def happens(desk: Desk) -> None:
        person.move(*addresses)
        addresses.reverse()

    assert succeeded(lambda: table.once(happens)) == RUNS
    if addresses[0] == ELSEWHERE:
        person.move(*addresses)


def test_udp_is_blocked_from_now_on(table: Table) -> None:
    def once() -> str:
        table.wire.set(Conditions())
        return table.once(lambda desk: table.wire.set(Conditions(udp=False)))

    assert succeeded(once) == RUNS
