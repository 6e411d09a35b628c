"""A media process without WebRTC, for tests of the HTTP side: it answers an offer with the offer's own SDP."""

from __future__ import annotations

from voxrtc.chat.media_client import CallRefused
from voxrtc.messages import Answer, Offer


class EchoMedia:
    """`refusal`, when set, is raised instead of any answer; `calls` keeps the offers of calls that are up."""

    def __init__(self) -> None:
        self.calls: dict[str, Offer] = {}
        self.refusal: CallRefused | None = None

    async def answer(self, offer: Offer) -> Answer:
        if self.refusal:
            raise self.refusal
        self.calls[offer.call] = offer
        return Answer(call=offer.call, sdp=offer.sdp)

    async def hang_up(self, call: str) -> bool:
        if self.refusal:
            raise self.refusal
        return self.calls.pop(call, None) is not None
