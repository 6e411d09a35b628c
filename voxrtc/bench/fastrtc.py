"""What a listener and a talker cost our media process, and what fastrtc's server, in one run, over loopback.

`make bench-fastrtc`, or `python -m voxrtc.bench fastrtc --python PATH`, an interpreter that can import fastrtc: it wants an
older Gradio, so it has an environment of its own. Ours is the media process as it is: a microphone's sound is decoded, put
in order, and listened to by the voice detector. fastrtc's handler hands chunks of a tone out and drops what comes in. Its
one process also answers HTTP, which is over when the measurement begins. Both are asked for the same tone, in chunks of 0.1 s.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from voxrtc.bench import beside, program
from voxrtc.bench.listener import Listener, Signal, signal
from voxrtc.bench.microphone import Talk, second
from voxrtc.bench.rtc import FIGURES, SPAWN, Result, attend, cpu, end, engine_known, measured, served
from voxrtc.chat.media_client import MediaClient
from voxrtc.rtc import ice

KINDS = ("voxrtc", "fastrtc")
SERVER = Path(__file__).parent / "baselines" / "fastrtc_server.py"
STARTS_WITHIN = 60.0  # seconds


# --- who listens and talks ---


def signal_fastrtc(http: httpx.AsyncClient, call: str) -> Signal:
    """To a fastrtc server."""

    async def answer(offer: str) -> str:
        reply = await http.post("/webrtc/offer", json={"sdp": offer, "type": "offer", "webrtc_id": call})
        assert "sdp" in reply.json(), reply.text
        return str(reply.json()["sdp"])

    return answer


async def visit(kind: str, address: str, peers: int, seconds: float, talks: bool, control: Connection) -> None:
    """Peers at a server of this kind: see `bench.rtc.attend`."""
    ice.prepare(loopback=True)
    async with contextlib.AsyncExitStack() as stack:
        connect: partial[Signal]
        if kind == "fastrtc":
            connect = partial(signal_fastrtc, await stack.enter_async_context(httpx.AsyncClient(base_url=address, timeout=30)))
        else:
            client = MediaClient(address)
            stack.push_async_callback(client.close)
            await client.ready()
            await engine_known(client)
            connect = partial(signal, client)
        # As a page offers it whose microphone is off: fastrtc speaks to nobody else.
        listeners = [Listener(connect(f"visitor_{number}"), "sendrecv") for number in range(peers)]
        await attend(listeners, seconds, control, partial(Talk, second()) if talks else None)


def visiting(*arguments: object) -> None:
    asyncio.run(visit(*arguments))  # type: ignore[arg-type]


def visiting_ours(address: str, *arguments: object) -> None:
    visiting("voxrtc", address, *arguments)


# --- who is visited ---


@contextlib.contextmanager
def fastrtc(python: str) -> Iterator[tuple[str, Callable[[], float]]]:
    """A fastrtc server, once it answers: its address, and how to ask for the CPU seconds that it has used."""
    port = program.free_port()
    trouble = f"fastrtc did not start with {python}; `make bench-fastrtc` makes an environment for it"
    with program.started([python, SERVER, str(port)], lambda: _answers(port), STARTS_WITHIN, trouble) as server:
        yield f"http://127.0.0.1:{port}", lambda: program.seconds(program.stat(server))


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# --- runs ---


def run(kind: str, python: str, peers: int, seconds: float, talks: bool) -> Result:
    """One run, in processes of its own."""
    if kind == "voxrtc":
        with served("voxrtc", visiting_ours, peers, seconds, talks) as (server, ears):
            return measured(ears, lambda: cpu(server), peers, seconds)
    with fastrtc(python) as (address, used):
        ears, ears_end = SPAWN.Pipe()
        visitors = SPAWN.Process(target=visiting, args=(kind, address, peers, seconds, talks, ears_end), daemon=True)
        visitors.start()
        try:
            return measured(ears, used, peers, seconds)
        finally:
            end(visitors)


def main(arguments: list[str]) -> None:
    """Alternate the two kinds, first with peers that listen, then with peers that talk as well; a table for each."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench fastrtc", description=__doc__)
    parser.add_argument("--python", required=True, help="an interpreter that can import fastrtc")
    parser.add_argument("--peers", type=int, default=6, help="at a time")
    parser.add_argument("--seconds", type=float, default=8, help="measured in each run")
    parser.add_argument("--runs", type=int, default=3, help="of each kind")
    options = parser.parse_args(arguments)
    for talks in (False, True):
        measure = partial(run, python=options.python, peers=options.peers, seconds=options.seconds, talks=talks)
        results = beside.in_turn(measure, options.runs, KINDS)
        print(f"{options.peers} peers that {'listen and talk' if talks else 'listen'}, {options.runs} runs of")
        print(f"{options.seconds:.0f} s each; median (lowest-highest)\n{beside.table(results, FIGURES)}\n", flush=True)
