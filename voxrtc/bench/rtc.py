"""What sound costs the media process: our stack beside stock aiortc, in one run, over loopback.

`python -m voxrtc.bench rtc --peers 6`. Listeners are aiortc peers in another process, which count packets and decrypt
nothing. Ours is the media process as it is, fed over its socket by an engine (a third process) that makes a tone; stock is
aiortc with a track of PCM frames and its own sender. Both are signalled in the same way.
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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import numpy as np
import zmq
import zmq.asyncio
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from aiortc.rtp import is_rtcp

from voxrtc.bench import beside
from voxrtc.bench.baselines.stock_aiortc import StockServer
from voxrtc.bench.beside import KINDS, in_turn
from voxrtc.chat import media
from voxrtc.chat.media_client import CallRefused, MediaClient
from voxrtc.messages import decode, encode
from voxrtc.messages.engine import Chunk, EngineReply, EngineRequest, Generate, ModelInfo, Progress, Timing, Watch
from voxrtc.messages.media import Offer
from voxrtc.recent import quantile
from voxrtc.rtc import ice
from voxrtc.rtc.peer import warm_up
from voxrtc.rtc.sound import FRAME_SECONDS
from voxrtc.settings import Settings

SPAWN = multiprocessing.get_context("spawn")
CHUNK = 0.1  # seconds of tone in a message of the engine
SETTLE = 1.0  # seconds between the last connection and the measurement
TONE = ModelInfo(
    name="tone",
    title="Tone",
    description="",
    family="tone",
    languages=[],
    voices=["default"],
    licence="",
    sample_rate=24_000,
    frame_rate=10.0,
)


@dataclass(frozen=True)
class Result:
    """One run of one kind."""

    cpu_ms_per_peer_second: float  # of sound that arrived: who sends less than real time is not cheaper for it
    delivered: float  # packets that arrived, as a share of 50 a second
    p99_gap_ms: float
    first_packet_ms: float  # offer -> first packet, median over the peers


def tone(seconds: float, rate: int) -> bytes:
    """PCM16 of 440 Hz."""
    return (8_000 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)).astype(np.int16).tobytes()


# --- the engine of ours ---


async def make_tones(address: str) -> None:
    """Answers each `Generate` with a tone that never ends, at the pace of its listener."""
    socket = zmq.asyncio.Context.instance().socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(address)
    speaking: set[asyncio.Task[None]] = set()

    async def say(client: bytes, reply: EngineReply) -> None:
        await socket.send_multipart([client, encode(reply)])

    async def speak(client: bytes, request: Generate) -> None:
        pcm, started = tone(CHUNK, 24_000), time.monotonic()
        timing = Timing(
            accepted=request.accepted,
            received=started,
            prompt_ready=started,
            first_step=started,
            first_frame=started,
            first_chunk=started,
        )
        for index in range(1_000_000):
            await say(
                client, Chunk(stream=request.stream, index=index, pcm=pcm, sample_rate=24_000, timing=None if index else timing)
            )
            await asyncio.sleep(started + (index - 4) * CHUNK - time.monotonic())  # half a second ahead

    while True:
        client, data = await socket.recv_multipart()
        match decode(data, EngineRequest):
            case Watch():
                await say(client, Progress(state="ready", info=TONE))
            case Generate() as request:
                speaking.add(asyncio.create_task(speak(client, request)))


def engine_process(address: str) -> None:
    asyncio.run(make_tones(address))


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


Signal = Callable[[str], Awaitable[str]]  # an SDP offer to a server, for its answer


def signal(client: MediaClient, call: str) -> Signal:
    """To a media process of ours, or who has its face."""

    async def answer(offer: str) -> str:
        return (await client.answer(Offer(call=call, sdp=offer))).sdp

    return answer


class Listener:
    """A peer that writes down when packets come. Once it is connected it decrypts none of its sound (12 us a packet in place
    of 80), so that the server is what is full first.
    """

    def __init__(self, answer: Signal, direction: str = "recvonly") -> None:
        self._answer = answer
        self._peer = RTCPeerConnection(ice.configuration(""))
        self._channel = self._peer.createDataChannel("oai-events")
        transceiver = self._peer.addTransceiver("audio", direction=direction)
        transceiver.receiver._handle_rtp_packet = self._packet  # type: ignore[method-assign]
        self.sender = transceiver.sender
        self._first = asyncio.Event()
        self.arrivals: list[float] = []

    async def connect(self) -> float:
        """Seconds from making the offer to the first packet."""
        opened = asyncio.Event()
        self._channel.on("open", opened.set)
        started = time.monotonic()
        await self._peer.setLocalDescription(await self._peer.createOffer())
        answer = await self._answer(self._peer.localDescription.sdp)
        await self._peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        await self._first.wait()
        await opened.wait()
        self._lighten()
        return self.arrivals[0] - started

    def _lighten(self) -> None:
        """Take the packets of sound right from the socket; all others go aiortc's way."""
        protocol = self._peer.sctp.transport.transport._connection._nominated[1].protocol
        received, arrivals = protocol.datagram_received, self.arrivals

        def datagram_received(data: bytes, address: tuple[str, int]) -> None:
            if 0x80 <= data[0] < 0xC0 and not is_rtcp(data):
                arrivals.append(time.monotonic())
            else:
                received(data, address)

        protocol.datagram_received = datagram_received

    def ask(self) -> None:
        """Have something said; stock, which always speaks, reads no events."""
        content = [{"type": "input_text", "text": "a tone"}]
        item = {"type": "message", "role": "user", "content": content}
        self._channel.send(json.dumps({"type": "conversation.item.create", "item": item}))
        self._channel.send(json.dumps({"type": "response.create"}))

    async def close(self) -> None:
        await self._peer.close()

    async def _packet(self, packet: Any, arrival_time_ms: int) -> None:
        self.arrivals.append(time.monotonic())
        self._first.set()


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
    await asyncio.sleep(SETTLE)
    for listener in listeners:
        listener.arrivals.clear()
    control.send("listening")
    await asyncio.sleep(seconds)
    gaps = [float(gap) for listener in listeners for gap in np.diff(listener.arrivals)]
    control.send((first, gaps))
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
