"""aiortc with a track of PCM frames and its own sender: encoding in the default executor, stereo, 96 kb/s."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from fractions import Fraction

from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame

from voxrtc.messages.media import Answer, HangUp, HungUp, MediaReply, MediaRequest, MediaStats, Offer, Refused
from voxrtc.rtc import ice


class PcmTrack(MediaStreamTrack):
    """A track as aiortc's users write it: PCM frames (the same 20 ms, 48 kHz, again and again), paced by the clock."""

    kind = "audio"

    def __init__(self, pcm: bytes) -> None:
        super().__init__()
        self._pcm, self._started, self._pts = pcm, time.monotonic(), 0

    async def recv(self) -> AudioFrame:
        await asyncio.sleep(self._started + self._pts / 48_000 - time.monotonic())
        frame = AudioFrame(format="s16", layout="mono", samples=960)
        frame.planes[0].update(self._pcm)
        frame.sample_rate, frame.time_base, frame.pts = 48_000, Fraction(1, 48_000), self._pts
        self._pts += 960
        return frame


class StockServer:
    """aiortc and nothing else, with the face of a `MediaServer`."""

    def __init__(self, pcm: bytes) -> None:
        self._pcm = pcm
        self._peers: dict[str, RTCPeerConnection] = {}

    async def handle(self, request: MediaRequest, tell: Callable[[MediaReply], None]) -> MediaReply:
        match request:
            case Offer(sdp=""):
                return Refused(call=request.call, status=400, code="invalid_offer", message="This is no SDP.")
            case Offer():
                peer = self._peers[request.call] = RTCPeerConnection(ice.configuration(""))
                peer.addTrack(PcmTrack(self._pcm))
                await peer.setRemoteDescription(RTCSessionDescription(request.sdp, "offer"))
                await peer.setLocalDescription(await peer.createAnswer())
                return Answer(call=request.call, sdp=peer.localDescription.sdp)
            case HangUp():
                await self._peers.pop(request.call).close()
                return HungUp(call=request.call, known=True)
            case _:
                return MediaStats(call=request.call, peers=len(self._peers), calls=len(self._peers), underruns=0, tasks=0)
