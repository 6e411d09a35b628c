"""What a microphone costs the media process, and how late its sound is: our receiving beside stock aiortc's, over loopback.

`python -m voxrtc.bench microphone --peers 6`. Talkers are aiortc peers in another process, which send Opus that was encoded
beforehand: half a second of tone, half a second of silence. The cost is that of a run with them less that of one without
sound; the delay is from a tone's first packet to the handing over of the first sound of it, at 16 kHz.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.connection import Connection

import numpy as np
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpSender, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioResampler
from av.packet import Packet

from voxrtc.bench import beside
from voxrtc.bench.beside import in_turn
from voxrtc.bench.rtc import SPAWN, await_reply, end
from voxrtc.chat.media import serve
from voxrtc.chat.media_client import MediaClient
from voxrtc.messages.media import Answer, MediaReply, MediaRequest, Offer
from voxrtc.rtc import ice
from voxrtc.rtc.microphone import RATE
from voxrtc.rtc.opus import OpusEncoder
from voxrtc.rtc.peer import Peer
from voxrtc.rtc.playout import Frame
from voxrtc.rtc.sound import FRAME, FRAME_SECONDS, RTP_RATE, TICKS, Samples
from voxrtc.rtc.sound import RATE as SENT_RATE
from voxrtc.rtc.track import PlayoutTrack

FRAMES = 50  # in a second, which is repeated; the second half is the tone
LOUD = 2_000
SETTLE = 1.0  # seconds


@dataclass(frozen=True)
class Result:
    """One run of one kind."""

    cpu_ms_per_peer_second: float
    delay_ms: float  # mean over all tones of all peers


class Onsets:
    """When a tone began, as one peer's listener heard it. Quacks as a `PeerListener` and a `PlayoutListener`."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._loud = False

    def heard(self, block: Samples) -> None:
        loud = bool(np.abs(block).max() > LOUD)
        if loud and not self._loud:
            self.times.append(time.monotonic())
        self._loud = loud

    def opened(self) -> None: ...
    def received(self, text: str | bytes) -> None: ...
    def closed(self) -> None: ...
    def started(self, clock: object) -> None: ...
    def progress(self, clock: object) -> None: ...
    def stopped(self, clock: object) -> None: ...


class Server:
    """Answers offers with peers of one kind, and listens to them."""

    def __init__(self, kind: str) -> None:
        self.onsets: defaultdict[str, Onsets] = defaultdict(Onsets)
        self._kind = kind
        self._keep: list[object] = []

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply:
        assert isinstance(request, Offer)
        answer = self._ours if self._kind == "voxrtc" else self._stock
        return Answer(call=request.call, sdp=await answer(request.sdp, self.onsets[request.call]))

    async def _ours(self, sdp: str, onsets: Onsets) -> str:
        peer = Peer(ice.configuration(""), onsets)
        peer.attach(PlayoutTrack(onsets))
        self._keep.append(peer)
        return await peer.answer(sdp)

    async def _stock(self, sdp: str, onsets: Onsets) -> str:
        peer = RTCPeerConnection(ice.configuration(""))
        peer.on("track", lambda track: self._keep.append(asyncio.ensure_future(self._listen(track, onsets))))
        self._keep.append(peer)
        await peer.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        await peer.setLocalDescription(await peer.createAnswer())
        return str(peer.localDescription.sdp)

    @staticmethod
    async def _listen(track: MediaStreamTrack, onsets: Onsets) -> None:
        """As aiortc's users do it."""
        resampler = AudioResampler(format="s16", layout="mono", rate=RATE)
        while True:
            for frame in resampler.resample(await track.recv()):
                onsets.heard(frame.to_ndarray()[0])


def server_process(kind: str, address: str, control: Connection) -> None:
    """Serves; answers each message on `control` with the CPU seconds used so far, and the onsets by call."""
    server = Server(kind)

    def report() -> None:
        while control.recv():
            control.send((time.process_time(), {call: onsets.times for call, onsets in server.onsets.items()}))

    threading.Thread(target=report, daemon=True).start()
    ice.prepare(loopback=True)
    asyncio.run(serve(server, address))


# --- who talks ---


def second() -> list[bytes]:
    """A second of Opus that can be repeated."""
    tone = 8_000 * np.sin(2 * np.pi * 440 * np.arange(SENT_RATE) / SENT_RATE) * (np.arange(SENT_RATE) >= SENT_RATE / 2)
    frames = [Frame(0, frame) for frame in np.tile(tone.astype(np.int16), 2).reshape(-1, FRAME)]
    OpusEncoder(0).encode(frames)
    return [frame.payload or b"" for frame in frames[FRAMES:]]


class Talk(MediaStreamTrack):
    """Packets at the pace of the clock."""

    kind = "audio"

    def __init__(self, packets: list[bytes]) -> None:
        super().__init__()
        self._packets, self._sent, self._began = packets, 0, time.monotonic()
        self.onsets: list[float] = []

    async def recv(self) -> Packet:
        if self.readyState != "live":
            raise MediaStreamError
        await asyncio.sleep(self._began + self._sent * FRAME_SECONDS - time.monotonic())
        place = self._sent % FRAMES
        if place == FRAMES // 2:
            self.onsets.append(time.monotonic())
        packet = Packet(self._packets[place])
        packet.pts, packet.time_base = self._sent * TICKS, Fraction(1, RTP_RATE)
        self._sent += 1
        return packet


async def connect(client: MediaClient, call: str) -> tuple[RTCPeerConnection, RTCRtpSender]:
    """A call that is open, and what sends a microphone's sound in it."""
    connection, opened = RTCPeerConnection(ice.configuration("")), asyncio.Event()
    sender = connection.addTransceiver("audio", direction="sendrecv").sender
    connection.createDataChannel("oai-events").on("open", opened.set)
    await connection.setLocalDescription(await connection.createOffer())
    answer = await client.answer(Offer(call=call, sdp=connection.localDescription.sdp))
    await connection.setRemoteDescription(RTCSessionDescription(answer.sdp, "answer"))
    await opened.wait()
    return connection, sender


async def talk(address: str, peers: int, seconds: float, sound: bool, control: Connection) -> None:
    """Connect, tell the parent, talk (or be silent), and send it the onsets by call."""
    ice.prepare(loopback=True)
    client = MediaClient(address)
    await client.ready()
    packets, talks, connections = second(), {}, []
    for number in range(peers):
        call = f"talker_{number}"
        connection, sender = await connect(client, call)
        connections.append(connection)
        talks[call] = Talk(packets)
        if sound:
            sender.replaceTrack(talks[call])
    await asyncio.sleep(SETTLE)
    control.send("talking")
    await asyncio.sleep(seconds)
    control.send({call: talk.onsets for call, talk in talks.items()})
    await asyncio.gather(*(connection.close() for connection in connections))


def talker_process(*arguments: object) -> None:
    asyncio.run(talk(*arguments))  # type: ignore[arg-type]


# --- runs ---


def run(kind: str, peers: int, seconds: float) -> Result:
    """A run with sound and one without, in processes of their own."""
    cpu, delays = _measure(kind, peers, seconds, sound=True)
    idle, _ = _measure(kind, peers, seconds, sound=False)
    return Result(1000 * (cpu - idle) / (peers * seconds), 1000 * statistics.mean(delays))


def _measure(kind: str, peers: int, seconds: float, sound: bool) -> tuple[float, list[float]]:
    """CPU seconds of the server, and all delays."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/media"
        server, servers_end = SPAWN.Pipe()
        talkers, talkers_end = SPAWN.Pipe()
        processes = [
            SPAWN.Process(target=server_process, args=(kind, address, servers_end), daemon=True),
            SPAWN.Process(target=talker_process, args=(address, peers, seconds, sound, talkers_end), daemon=True),
        ]
        try:
            for process in processes:
                process.start()
            await_reply(talkers, 30 + peers)
            before, _ = _ask(server)
            sent: dict[str, list[float]] = await_reply(talkers, seconds + 30)
            after, heard = _ask(server)
        finally:
            for process in processes:
                end(process)
    # The very first packet ends the tone of a second that nobody heard.
    delays = [
        time - max(each for each in sent[call] if each <= time)
        for call, times in heard.items()
        for time in times
        if sent[call] and time > sent[call][0]
    ]
    return after - before, delays


def _ask(server: Connection) -> tuple[float, dict[str, list[float]]]:
    server.send(True)
    reply: tuple[float, dict[str, list[float]]] = await_reply(server, 10)
    return reply


FIGURES: dict[str, Callable[[Result], float]] = {
    "CPU ms per peer-second": lambda result: result.cpu_ms_per_peer_second,
    "delay, ms": lambda result: result.delay_ms,
}


def table(results: dict[str, list[Result]]) -> str:
    """See `beside.table`."""
    return beside.table(results, FIGURES)


def main(arguments: list[str]) -> None:
    """Alternate the two kinds, then print a table."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench microphone", description=__doc__)
    parser.add_argument("--peers", type=int, default=6, help="talkers at a time")
    parser.add_argument("--seconds", type=float, default=8, help="measured in each run")
    parser.add_argument("--runs", type=int, default=3, help="of each kind")
    options = parser.parse_args(arguments)
    results = in_turn(lambda kind: run(kind, options.peers, options.seconds), options.runs)
    print(f"{options.peers} talkers, {options.runs} runs of {options.seconds:.0f} s each; median (lowest-highest)")
    print(table(results))
