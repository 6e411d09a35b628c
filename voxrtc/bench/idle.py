"""What a listener costs the media process who hears nothing and says nothing: with the microphone off, and on in a quiet room.

`python -m voxrtc.bench idle --peers 4`. The media process is the product's own; the listeners are aiortc peers in another
process, which send Opus that was encoded beforehand: noise at -68 dB.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from multiprocessing.connection import Connection

import numpy as np

from voxrtc.bench.microphone import FRAMES, SETTLE, Talk, connect
from voxrtc.bench.rtc import await_reply, cpu, engine_known, served
from voxrtc.chat.media_client import MediaClient
from voxrtc.rtc import ice
from voxrtc.rtc.opus import OpusEncoder
from voxrtc.rtc.playout import Frame
from voxrtc.rtc.sound import FRAME

ROOM = 13  # of 32768: what a microphone hears where nobody speaks


def quiet() -> list[bytes]:
    """A second of Opus that can be repeated."""
    noise = np.random.default_rng(0).normal(0, ROOM, (FRAMES, FRAME)).astype(np.int16)
    frames = [Frame(0, pcm) for pcm in noise]
    OpusEncoder(0).encode(frames)
    return [frame.payload or b"" for frame in frames]


async def attend(address: str, peers: int, seconds: float, microphone: bool, control: Connection) -> None:
    """Connect, tell the parent, stay, and tell it again."""
    ice.prepare(loopback=True)
    client, connections = MediaClient(address), []
    await client.ready()
    await engine_known(client)
    for number in range(peers):
        connection, sender = await connect(client, f"listener_{number}")
        connections.append(connection)
        if microphone:
            sender.replaceTrack(Talk(quiet()))
    await asyncio.sleep(SETTLE)
    control.send("there")
    await asyncio.sleep(seconds)
    control.send("still there")
    await asyncio.gather(*(connection.close() for connection in connections))
    await client.close()


def attending(*arguments: object) -> None:
    asyncio.run(attend(*arguments))  # type: ignore[arg-type]


def run(peers: int, seconds: float, microphone: bool) -> float:
    """The share of a core that one listener takes."""
    with served("voxrtc", attending, peers, seconds, microphone) as (server, listeners):
        await_reply(listeners, 30 + peers)
        before = cpu(server)
        await_reply(listeners, seconds + 30)
        return (cpu(server) - before) / seconds / peers


def main(arguments: list[str]) -> None:
    """Medians of runs, and their spread."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench idle", description=__doc__)
    parser.add_argument("--peers", type=int, default=4, help="listeners at a time")
    parser.add_argument("--seconds", type=float, default=10, help="measured in each run")
    parser.add_argument("--runs", type=int, default=3, help="of each kind")
    options = parser.parse_args(arguments)
    for microphone in (False, True):
        shares = [100 * run(options.peers, options.seconds, microphone) for _ in range(options.runs)]
        spread = f"{statistics.median(shares):.2f}% of a core ({min(shares):.2f}-{max(shares):.2f})"
        print(f"an idle listener of {options.peers}, microphone {'on' if microphone else 'off'}: {spread}")
