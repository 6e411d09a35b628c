"""What it costs the server that people look at the dashboard: the whole product under a steady load, with viewers and without.

`python -m voxrtc.bench dashboard`. Peers in another process listen without a pause and send a microphone's sound. Windows with
viewers and without alternate in one run; CPU is that of the server and all its processes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from voxrtc.bench import program
from voxrtc.bench.listener import Listener, Signal
from voxrtc.bench.microphone import Talk, second
from voxrtc.bench.rtc import SPAWN, await_reply, end
from voxrtc.rtc import ice
from voxrtc.settings import ROOT

LIVE = "/v1/voxrtc/live"
READY_WITHIN = 180.0  # seconds
SETTLE = 3.0  # seconds after a change
TEXT = "The river runs past the mill and under the bridge."  # short: an engine makes a text at once, and then rests


# --- who listens and talks ---


def signal(http: httpx.AsyncClient) -> Signal:
    """To the product, over HTTP."""

    async def answer(offer: str) -> str:
        reply = await http.post("/v1/realtime/calls", content=offer, headers={"Content-Type": "application/sdp"})
        assert reply.status_code == 201, reply.text
        return reply.text

    return answer


class Talker(Listener):
    """Has a text read out, and once more when it is over; without an end."""

    def ask(self) -> None:
        self._channel.on("message", self._told)
        self._read()

    def _told(self, text: str) -> None:
        if json.loads(text)["type"] == "output_audio_buffer.stopped":
            self._read()

    def _read(self) -> None:
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": TEXT}]}
        self._channel.send(json.dumps({"type": "response.create", "response": {"input": [said]}}))


async def attend(url: str, peers: int, control: Connection) -> None:
    """Connect, tell the parent, and stay."""
    ice.prepare(loopback=True)
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        talkers = [Talker(signal(http), "sendrecv") for _ in range(peers)]
        connecting = [asyncio.ensure_future(talker.connect()) for talker in talkers]
        for task, talker in zip(connecting, talkers, strict=True):
            await task
            talker.sender.replaceTrack(Talk(second()))
            talker.ask()
        control.send("talking")
        await asyncio.Event().wait()


def attending(*arguments: object) -> None:
    asyncio.run(attend(*arguments))  # type: ignore[arg-type]


# --- who looks ---


@contextlib.asynccontextmanager
async def viewers(port: int, count: int) -> AsyncIterator[list[int]]:
    """So many look; how many ticks each has seen."""
    seen = [0] * count

    async def look(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {LIVE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        with contextlib.closing(writer):
            while line := await reader.readline():
                seen[number] += line.startswith(b"event: stats")

    tasks = [asyncio.ensure_future(look(number)) for number in range(count)]
    try:
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- what is looked at ---


@contextlib.contextmanager
def product() -> Iterator[tuple[int, int]]:
    """The product, once it can speak: its process and its port. Nobody answers in it."""
    port = program.free_port()
    settings = {"HOST": "127.0.0.1", "PORT": str(port), "VOXRTC_ICE_LOOPBACK": "1", "VOXRTC_CHAT_LOCAL": "none"}
    command, trouble = [sys.executable, "app.py"], "the server did not start; `python app.py` tells why"
    with (
        tempfile.TemporaryFile() as log,
        program.started(command, lambda: _ready(port), READY_WITHIN, trouble, settings, ROOT, log) as server,
    ):
        yield server, port


def _ready(port: int) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    return False


def cpu(process: int) -> dict[int, float]:
    """CPU seconds of a process and all that it has started, by process (proc(5): utime and stime)."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields, number = program.stat(folder.name), int(folder.name)
            parents[number], used[number] = int(fields[1]), program.seconds(fields)
    family = {process}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return {number: used[number] for number in family}


# --- runs ---


@dataclass(frozen=True)
class Window:
    """Shares of a core, and the ticks a second that a viewer saw."""

    all: float
    web: float
    ticks: float = 0.0


async def measure(server: int, port: int, count: int, seconds: float) -> Window:
    """A window with so many viewers."""
    async with viewers(port, count) as seen:
        await asyncio.sleep(SETTLE)
        before, ticks, began = cpu(server), sum(seen), time.monotonic()
        await asyncio.sleep(seconds)
        after, took = cpu(server), time.monotonic() - began
        rate = (sum(seen) - ticks) / count / took if count else 0.0
    spent = sum(after.values()) - sum(before.values())
    return Window(spent / took, (after[server] - before[server]) / took, rate)


async def run(peers: int, count: int, seconds: float, runs: int) -> dict[int, list[Window]]:
    """Windows with no viewer and with `count`, in turn."""
    windows: dict[int, list[Window]] = {0: [], count: []}
    with product() as (server, port):
        control, ours = SPAWN.Pipe()
        load = SPAWN.Process(target=attending, args=(f"http://127.0.0.1:{port}", peers, ours), daemon=True)
        load.start()
        try:
            await asyncio.to_thread(await_reply, control, 60)
            for number in range(runs):
                for kind in (0, count) if number % 2 == 0 else (count, 0):
                    windows[kind].append(await measure(server, port, kind, seconds))
        finally:
            end(load)
    return windows


def main(arguments: list[str]) -> None:
    """Medians of windows, their spread, and the ratio."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench dashboard", description=__doc__)
    parser.add_argument("--peers", type=int, default=4, help="that listen and talk meanwhile")
    parser.add_argument("--viewers", type=int, default=10, help="at a time")
    parser.add_argument("--seconds", type=float, default=8, help="of a window")
    parser.add_argument("--runs", type=int, default=5, help="windows of each kind")
    options = parser.parse_args(arguments)
    windows = asyncio.run(run(options.peers, options.viewers, options.seconds, options.runs))
    print(f"{options.peers} peers that listen and talk, {options.runs} windows of {options.seconds:.0f} s of each kind;")
    print("shares of a core, median (lowest-highest)")
    for label in ("all", "web"):
        shares = {kind: [100 * getattr(window, label) for window in each] for kind, each in windows.items()}
        medians = {kind: statistics.median(each) for kind, each in shares.items()}
        cells = [f"{kind} viewers {medians[kind]:.1f}% ({min(each):.1f}-{max(each):.1f})" for kind, each in shares.items()]
        name = {"all": "all processes", "web": "of these, web"}[label]
        print(f"{name}: {', '.join(cells)}: {medians[options.viewers] / medians[0]:.2f}")
    print(f"ticks a second that a viewer saw: {statistics.median(window.ticks for window in windows[options.viewers]):.2f}")
