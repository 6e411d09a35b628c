"""Speech to text over its socket, as a process that may die, and with its real model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.ear import wer
from tests.program import process_of
from tests.speech import SAID, recorded
from tests.waiting import PATIENCE, until
from voxrtc.asr.client import HearingClient
from voxrtc.asr.moonshine import Moonshine
from voxrtc.asr.process import HearingServer, serve
from voxrtc.asr.queue import BYTES, ENOUGH, SETTLED
from voxrtc.messages.hearing import Finish, Hear, HearingReply, Look, Transcript

ALL = 1 << 30  # bytes: nothing of it is known to be silence


class Notes:
    """A reader that writes everything down."""

    def __init__(self) -> None:
        self.hypotheses: list[str] = []
        self.ends: list[str] = []
        self.ended, self.guessed = asyncio.Event(), asyncio.Event()
        self.over: float | None = None

    def hypothesis(self, text: str, heard: int, over: float | None) -> None:
        self.hypotheses.append(text)
        self.over = over
        self.guessed.set()

    def transcript(self, text: str) -> None:
        self.ends.append(text)
        self.ended.set()

    def unheard(self, code: str, message: str) -> None:
        self.ends.append(f"{code}: {message}")
        self.ended.set()

    async def end(self) -> str:
        await asyncio.wait_for(self.ended.wait(), PATIENCE)
        return self.ends[0]


@asynccontextmanager
async def serving(transcribe: Callable[[bytes], str], folder: Path) -> AsyncIterator[HearingClient]:
    address = f"ipc://{folder}/hearing"
    server = asyncio.ensure_future(serve(transcribe, judge, address))
    client = HearingClient(address, {})
    await connected(client)
    yield client
    await client.close()
    server.cancel()


async def connected(client: HearingClient) -> None:
    await until(lambda: client._connection.connected)


def judge(pcm: bytes, text: str) -> float:
    return 0.25


def count(pcm: bytes) -> str:
    return f"{len(pcm)} bytes"


async def test_sound_goes_in_and_words_come_out(tmp_path: Path) -> None:
    async with serving(count, tmp_path) as client:
        notes = [Notes(), Notes()]
        for number, note in enumerate(notes):
            client.begin(f"{number}", note, b"ab")
            client.hear(f"{number}", b"cd" * number)
        for number in (1, 0):
            client.finish(f"{number}", ALL)
        assert [await note.end() for note in notes] == ["2 bytes", "4 bytes"]


async def test_clients_need_not_know_of_each_other(tmp_path: Path) -> None:
    """Nor of each other's names for what is said."""
    async with serving(count, tmp_path) as one:
        other = HearingClient(f"ipc://{tmp_path}/hearing", {})
        await connected(other)
        notes = [Notes(), Notes()]
        for client, note, pcm in zip((one, other), notes, (b"ab", b"abcd"), strict=True):
            client.begin("a", note, pcm)
        other.finish("a", ALL)
        assert await notes[1].end() == "4 bytes" and not notes[0].ends
        one.finish("a", ALL)
        assert await notes[0].end() == "2 bytes"
        await other.close()


async def test_words_come_while_somebody_speaks(tmp_path: Path) -> None:
    async with serving(count, tmp_path) as client:
        note = Notes()
        client.begin("a", note, bytes(round(ENOUGH * 32_000)))
        await asyncio.wait_for(note.guessed.wait(), PATIENCE)
        client.hear("a", b"ab")
        client.finish("a", ALL)
        assert await note.end() == f"{round(ENOUGH * 32_000) + 2} bytes"
    assert note.hypotheses == [f"{round(ENOUGH * 32_000)} bytes"]


async def test_a_pause_is_looked_at_and_its_words_are_the_transcript(tmp_path: Path) -> None:
    """At once, without a second look, when nothing but silence came since."""
    looks: list[bytes] = []

    def transcribe(pcm: bytes) -> str:
        looks.append(pcm)
        return count(pcm)

    async with serving(transcribe, tmp_path) as client:
        note = Notes()
        client.begin("a", note, b"abcd")
        client.look("a")
        await asyncio.wait_for(note.guessed.wait(), PATIENCE)
        assert (note.hypotheses, note.over) == (["4 bytes"], judge(b"abcd", "4 bytes"))
        client.hear("a", bytes(100))
        client.finish("a", 4)
        assert await note.end() == "4 bytes"
    assert len(looks) == 1


async def test_the_end_need_not_wait_for_a_second_look() -> None:
    """Nor when the first is still under way then."""
    going, go = threading.Event(), threading.Event()

    def transcribe(pcm: bytes) -> str:
        going.set()
        go.wait(PATIENCE)
        return count(pcm)

    replies: asyncio.Queue[HearingReply] = asyncio.Queue()
    server = HearingServer(transcribe, judge, lambda client, reply: replies.put_nowait(reply))
    running = asyncio.ensure_future(server.run())
    server.take(b"client", Hear(utterance="a", pcm=b"abcd", first=True))
    server.take(b"client", Look(utterance="a"))
    await asyncio.to_thread(going.wait, PATIENCE)
    server.take(b"client", Hear(utterance="a", pcm=bytes(100)))
    server.take(b"client", Finish(utterance="a", speech=4))
    go.set()
    assert await asyncio.wait_for(replies.get(), PATIENCE) == Transcript(utterance="a", text="4 bytes")
    running.cancel()


async def test_a_monologue_is_not_read_again_from_its_beginning(tmp_path: Path) -> None:
    """Else its end would take as long as all of it."""
    long = bytes(round(SETTLED * BYTES))
    async with serving(count, tmp_path) as client:
        note = Notes()
        client.begin("a", note, long)
        client.look("a")
        async with asyncio.timeout(PATIENCE):
            while note.over is None:  # that was another look, before the pause
                note.guessed.clear()
                await note.guessed.wait()
        client.hear("a", b"abcd")
        client.finish("a", ALL)
        assert await note.end() == f"{count(long)} 4 bytes"


async def test_one_that_cannot_be_transcribed_fails_alone(tmp_path: Path) -> None:
    def transcribe(pcm: bytes) -> str:
        if pcm == b"bad!":
            raise RuntimeError("an accident")
        return "fine"

    async with serving(transcribe, tmp_path) as client:
        notes = {pcm: Notes() for pcm in (b"good", b"bad!")}
        for pcm, note in notes.items():
            client.begin(f"{pcm!r}", note, pcm)
            client.finish(f"{pcm!r}", ALL)
        assert await notes[b"good"].end() == "fine"
        assert (await notes[b"bad!"].end()).startswith("transcription_failed")


async def test_the_forgotten_is_not_told(tmp_path: Path) -> None:
    """Not even when it was being transcribed just then."""
    going, go = threading.Event(), threading.Event()

    def transcribe(pcm: bytes) -> str:
        going.set()
        go.wait(PATIENCE)
        return "something"

    async with serving(transcribe, tmp_path) as client:
        forgotten, other = Notes(), Notes()
        client.begin("a", forgotten, b"ab")
        client.finish("a", ALL)
        await asyncio.to_thread(going.wait, PATIENCE)
        client.forget("a")
        client.begin("b", other, b"ab")
        client.finish("b", ALL)
        go.set()
        assert await other.end() == "something"
    assert forgotten.ends == []


async def test_a_process_that_dies_is_told_and_found_again(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/hearing"
    hearing = partial(process_of, "voxrtc.asr.process", "--listen", address)
    client = HearingClient(address, {})
    early, late, after = Notes(), Notes(), Notes()
    client.begin("early", early, b"ab")
    assert (await early.end()).startswith("transcriber_lost")
    said = recorded("boat").tobytes()
    with hearing() as process:
        await connected(client)
        client.begin("late", late, said[:32_000])
        await asyncio.wait_for(late.guessed.wait(), PATIENCE)
        process.kill()
        assert (await late.end()).startswith("transcriber_lost")
        client.finish("late", ALL)
    with hearing() as process:
        await connected(client)
        client.begin("after", after, said)
        client.finish("after", ALL)
        assert wer([SAID["boat"]], [await after.end()]) == 0
        assert process.stdin
        process.stdin.close()  # its lifeline
        assert process.wait(PATIENCE) == 0
    await client.close()


@pytest.fixture(scope="module")
def moonshine() -> Moonshine:
    return Moonshine()


@pytest.mark.parametrize("name", SAID)
def test_moonshine_hears_larks_voice(moonshine: Moonshine, name: str) -> None:
    assert wer([SAID[name]], [moonshine(recorded(name).tobytes())]) == 0


def test_moonshine_hears_nothing_of_the_call_before(moonshine: Moonshine) -> None:
    """Which may have ended amid a word."""
    said = np.concatenate([np.zeros(4_800, np.int16), recorded("stop"), np.zeros(8_000, np.int16)])
    for end in (1.07, 1.5, 2.0, 2.5, 3.1):
        moonshine(recorded("boat")[: round(end * 16_000)].tobytes())
        assert wer([SAID["stop"]], [moonshine(said.tobytes())]) == 0


def test_moonshine_hears_no_words_where_there_are_none(moonshine: Moonshine) -> None:
    noise = np.random.default_rng(0).normal(0, 1_500, 32_000).astype(np.int16)
    for pcm in (b"", bytes(2), bytes(64_000), noise.tobytes()):
        assert moonshine(pcm) == ""


def test_moonshine_hears_a_monologue(moonshine: Moonshine) -> None:
    """30 s, longer than it was trained on: it is cut in pauses."""
    once = np.concatenate([recorded(name) for name in SAID])
    times = round(30 * 16_000 / len(once))
    said = " ".join(list(SAID.values()) * times)
    assert wer([said], [moonshine(np.tile(once, times).tobytes())]) <= 0.05
