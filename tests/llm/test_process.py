"""The chat model over its socket: while it is loaded, for several clients, and as a process that may die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.llm.test_writer import Parrot, user
from tests.program import process_of
from tests.waiting import until
from voxrtc.engine.transport import Listener
from voxrtc.llm.client import CompletionClient, CompletionCut, CompletionFailed
from voxrtc.llm.model import SLOTS
from voxrtc.llm.prompt import CONVERSATION
from voxrtc.llm.server import EARLY, CompletionServer
from voxrtc.llm.writer import WAITING, Writer
from voxrtc.messages.completion import CompletionRequest
from voxrtc.messages.model import Progress

PATIENCE = 180.0


@asynccontextmanager
async def serving(folder: Path, clients: int = 1) -> AsyncIterator[tuple[CompletionServer, list[CompletionClient]]]:
    """A server without a model yet, and clients of it."""
    address = f"ipc://{folder}/chat"
    listener = Listener(address, CompletionRequest)
    server = CompletionServer(listener.send)
    tasks = [asyncio.ensure_future(server.run()), asyncio.ensure_future(listener.serve(server.take))]
    made = [CompletionClient(address) for _ in range(clients)]
    await connected(*made)
    yield server, made
    for client in made:
        await client.close()
    for task in tasks:
        task.cancel()


async def connected(*clients: CompletionClient) -> None:
    await until(lambda: all(client._connection.connected for client in clients), PATIENCE)


async def state(client: CompletionClient, wanted: str) -> Progress:
    await until(lambda: client.progress.state == wanted, PATIENCE)
    return client.progress


async def answer(client: CompletionClient, text: str, max_tokens: int | None = None) -> str:
    async with asyncio.timeout(PATIENCE):
        return "".join([delta async for delta in client.complete(user(text), max_tokens)])


async def test_several_clients_are_answered_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, clients=2) as (server, clients):
        server.open(Writer(Parrot(), SLOTS))
        texts = [f"word {number}" for number in range(12)]
        answers = await asyncio.gather(*(answer(clients[number % 2], text) for number, text in enumerate(texts)))
        assert answers == texts


async def test_who_asks_while_it_is_loaded_waits(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, [client]):
        server.tell(Progress(state="loading", stage="reading"))
        asked = [asyncio.ensure_future(answer(client, f"{number}")) for number in range(EARLY - 1)]
        await state(client, "loading")
        server.open(Writer(Parrot(), SLOTS))
        assert await asyncio.gather(*asked) == [f"{number}" for number in range(EARLY - 1)]
        await state(client, "ready")


@pytest.mark.parametrize(
    ("progress", "code", "told"),
    [
        (Progress(state="loading", stage="downloading", done=3_000_000, total=9_000_000), "model_loading", "3 of 9 MB"),
        (Progress(state="failed", message="Fetch it."), "model_failed", "could not be loaded. Fetch it."),
    ],
)
async def test_who_would_wait_long_is_told(progress: Progress, code: str, told: str, tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, [client]):
        server.tell(progress)
        with pytest.raises(CompletionFailed, match=told) as failed:
            await answer(client, "hello")
        assert failed.value.code == code


async def test_what_is_wrong_is_told_to_whom_it_concerns(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, [client]):
        parrot = Parrot()
        server.open(Writer(parrot, SLOTS))
        with pytest.raises(CompletionFailed, match="fewer words"):
            await answer(client, "x" * CONVERSATION)
        with pytest.raises(CompletionCut):
            await answer(client, "hello", max_tokens=2)
        parrot.broken = True
        with pytest.raises(CompletionFailed, match="log says why"):
            await answer(client, "hello")
        parrot.broken = False
        assert await answer(client, "hello") == "hello"


async def test_too_many_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, [client]):
        server.open(Writer(Parrot(), SLOTS))
        asked = [answer(client, "x" * 50) for _ in range(4 * WAITING)]
        came = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in came if isinstance(each, CompletionFailed)]
        assert refused and all(each.code == "busy" for each in refused)
        assert sum(each == "x" * 50 for each in came) == len(came) - len(refused) >= WAITING


async def test_leaving_stops_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, [client]):
        writer = Writer(Parrot(), SLOTS)
        server.open(writer)
        async with aclosing(client.complete(user("x" * 100))) as deltas:
            assert await anext(deltas)
        async with asyncio.timeout(PATIENCE):
            while writer.busy:
                await asyncio.sleep(0)
        steps = len(writer._model.steps)  # type: ignore[attr-defined]
        assert steps < 100


async def test_one_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrtc.llm.client.START_WITHIN", 0.05)
    client = CompletionClient(f"ipc://{tmp_path}/nobody")
    with pytest.raises(CompletionFailed, match="does not start"):
        await answer(client, "hello")
    await client.close()


@pytest.mark.slow
async def test_a_process_that_dies_is_told_and_found_again(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/chat"
    chat = partial(process_of, "voxrtc.llm.process", "--listen", address)
    client = CompletionClient(address)
    with chat() as process:
        await connected(client)
        early = asyncio.ensure_future(answer(client, "hello"))
        await asyncio.sleep(0)
        process.kill()
        with pytest.raises(CompletionFailed, match="being restarted"):
            await early
    assert client.progress.state == "loading"
    with chat() as process:
        await state(client, "ready")
        assert "Paris" in await answer(client, "What is the capital of France?")
        assert process.stdin
        process.stdin.close()  # its lifeline
        assert process.wait(PATIENCE) == 0
    await client.close()
