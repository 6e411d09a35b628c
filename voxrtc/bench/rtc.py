"""What sound costs the media process: our stack beside stock aiortc, in one run, over loopback.

`python -m voxrtc.bench rtc --peers 6`. Listeners are peers in another process, which have the kernel note when packets come
and decrypt nothing (Linux only). Ours is the media process as it is, fed over its socket by an engine (a third process) that
makes a tone; stock is aiortc with a track of PCM frames and its own sender. Both are signalled in the same way.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import numpy as np
from aiortc import MediaStreamTrack

from voxrtc.bench import beside
from voxrtc.bench.baselines.stock_aiortc import StockServer
from voxrtc.bench.beside import KINDS, in_turn
from voxrtc.bench.listener import Listener, signal
from voxrtc.bench.tones import TONE, engine_process, tone
from voxrtc.chat import media
from voxrtc.chat.media_client import CallRefused, MediaClient
from voxrtc.messages.media import Offer
from voxrtc.recent import quantile
from voxrtc.rtc import ice
from voxrtc.rtc.peer import warm_up
from voxrtc.rtc.sound import FRAME_SECONDS
from voxrtc.settings import Settings

SPAWN = multiprocessing.get_context("spawn")
ASKING = 0.005  # seconds between two who ask for sound, as people do not all at once
SETTLE = 2.0  # seconds between the last of them and the measurement


@dataclass(frozen=True)
class Result:
    """One run of one kind."""

    cpu_ms_per_peer_second: float  # of sound that arrived: who sends less than real time is not cheaper for it
    delivered: float  # packets that arrived, as a share of 50 a second
    p99_gap_ms: float
    first_packet_ms: float  # offer -> first packet, median over the peers


# --- what is measured ---


async def run_stock(address: str) -> None:
    ice.prepare(loopback=True)
    await warm_up(ice.configuration(""))
    await media.serve(StockServer(tone(0.02, 48_000)), address)


def server_process(kind: str, engine: str, address: str, core: int | None, control: Connection) -> None:
    """Serves, on this core if one is given; answers each message on `control` with the CPU seconds that it has used."""
    logging.basicConfig(level=logging.WARNING)
    if core is not None:
        os.sched_setaffinity(0, {core})

    def report() -> None:
        with contextlib.suppress(EOFError):
            while control.recv():
                control.send(time.process_time())

    threading.Thread(target=report, daemon=True).start()
    settings = Settings(ice_loopback=True, max_peers=1000)
    asyncio.run(
        media.run({TONE.name: engine}, f"{address}-hearing", "", address, settings) if kind == "voxrtc" else run_stock(address)
    )


# --- who listens ---


async def engine_known(client: MediaClient) -> None:
    """Until the media process has found its engine, it refuses every call with 503; afterwards a mere hello with 400."""
    while True:
        try:
            await client.answer(Offer(call="hello", sdp=""))
        except CallRefused as refusal:
            if refusal.status != 503:
                return
        await asyncio.sleep(0.05)


async def listen(address: str, peers: int, seconds: float, control: Connection) -> None:
    """Connect one after another, tell the parent, listen, and send it all first-packet times and gaps (seconds)."""
    ice.prepare(loopback=True)
    client = MediaClient(address)
    await client.ready()
    await engine_known(client)
    await attend([Listener(signal(client, f"listener_{number}")) for number in range(peers)], seconds, control)
    await client.close()


async def attend(
    listeners: Sequence[Listener],
    seconds: float,
    control: Connection,
    microphone: Callable[[], MediaStreamTrack] | None = None,
) -> None:
    """See `listen`. With a `microphone` they talk, too, from when all are there."""
    first = [await listener.connect() for listener in listeners]
    if microphone:
        for listener in listeners:
            listener.sender.replaceTrack(microphone())
    for listener in listeners:
        listener.ask()
        await asyncio.sleep(ASKING)
    await asyncio.sleep(SETTLE)
    for listener in listeners:
        listener.begin()
    control.send("listening")
    await asyncio.sleep(seconds)
    control.send((first, np.concatenate([listener.gaps() for listener in listeners]).tolist()))
    await asyncio.gather(*(listener.close() for listener in listeners))


def listener_process(address: str, peers: int, seconds: float, control: Connection) -> None:
    asyncio.run(listen(address, peers, seconds, control))


# --- runs ---


@contextlib.contextmanager
def served(
    kind: str, listeners: Callable[..., None], *arguments: object, core: int | None = None
) -> Iterator[tuple[Connection, Connection]]:
    """An engine, a server of this kind and `listeners(address, *arguments, control)`, in processes of their own: the server's
    control and the listeners'."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        engine, address = f"ipc://{folder}/engine", f"ipc://{folder}/media"
        server, servers_end = SPAWN.Pipe()
        ears, ears_end = SPAWN.Pipe()
        for process in (
            SPAWN.Process(target=engine_process, args=(engine,), daemon=True),
            SPAWN.Process(target=server_process, args=(kind, engine, address, core, servers_end), daemon=True),
            SPAWN.Process(target=listeners, args=(address, *arguments, ears_end), daemon=True),
        ):
            process.start()
            stack.callback(end, process)
        yield server, ears


def run(kind: str, peers: int, seconds: float) -> Result:
    """One run, in processes of its own."""
    with served(kind, listener_process, peers, seconds) as (server, ears):
        return measured(ears, lambda: cpu(server), peers, seconds)


def measured(ears: Connection, used: Callable[[], float], peers: int, seconds: float) -> Result:
    """What `attend` tells at the other end of `ears`, of a server that has `used` so many CPU seconds."""
    await_reply(ears, 30 + peers)
    before = used()
    first, gaps = await_reply(ears, seconds + 30)
    spent, delivered = used() - before, (len(gaps) + peers) * FRAME_SECONDS
    return Result(
        cpu_ms_per_peer_second=1000 * spent / delivered,
        delivered=delivered / (peers * seconds),
        p99_gap_ms=1000 * quantile(gaps, 0.99),
        first_packet_ms=1000 * statistics.median(first),
    )


def await_reply(control: Connection, seconds: float) -> Any:
    if not control.poll(seconds):
        raise TimeoutError(f"a process of the bench said nothing for {seconds:.0f} s")
    return control.recv()


def cpu(server: Connection) -> float:
    """Seconds that a `server_process` has used."""
    server.send(True)
    return float(await_reply(server, 10))


def end(process: SpawnProcess) -> None:
    process.terminate()
    process.join(5)


FIGURES: dict[str, Callable[[Result], float]] = {
    "CPU ms per peer-second": lambda result: result.cpu_ms_per_peer_second,
    "delivered / real time": lambda result: result.delivered,
    "p99 packet gap, ms": lambda result: result.p99_gap_ms,
    "offer -> first packet, ms": lambda result: result.first_packet_ms,
}


def table(results: dict[str, list[Result]]) -> str:
    """See `beside.table`."""
    return beside.table(results, FIGURES)


def main(arguments: list[str]) -> None:
    """Alternate the two kinds, then print a table."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench rtc", description=__doc__)
    parser.add_argument("--peers", type=int, default=6, help="listeners at a time")
    parser.add_argument("--seconds", type=float, default=8, help="measured in each run")
    parser.add_argument("--runs", type=int, default=3, help="of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    results = in_turn(lambda kind: run(kind, options.peers, options.seconds), options.runs)
    if options.json:
        print(
            json.dumps(
                {
                    "peers": options.peers,
                    "seconds": options.seconds,
                    **{kind: [asdict(result) for result in results[kind]] for kind in KINDS},
                }
            )
        )
    else:
        print(f"{options.peers} listeners, {options.runs} runs of {options.seconds:.0f} s each; median (lowest-highest)")
        print(table(results))
