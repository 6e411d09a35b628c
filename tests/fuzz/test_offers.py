"""Offers that are nearly right: each is answered or refused, and who listens meanwhile hears no gap."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from tests.chat.stage import LONG
from tests.chat.test_media import ask, server, stats
from tests.fake_engine import ToneTransport
from tests.fuzz import mutate
from tests.rtc.browser import Browser
from voxrtc.messages import encode
from voxrtc.messages.media import Answer, HangUp, Offer, Refused

pytestmark = pytest.mark.anyio
WITHIN = 5.0  # seconds for an answer, also of a busy machine


def sent(offer: Offer) -> bool:
    """Whether the web process could send it on: it has refused a text that is no UTF-8, and a number out of range."""
    try:
        return bool(encode(offer))
    except (UnicodeEncodeError, OverflowError):
        return False


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.chaos)])
async def test_no_offer_hurts_anybody(count: int) -> None:
    rng, media = random.Random(count), server(ToneTransport(4.0))
    listener, model = Browser(), Browser("sendrecv")
    valid = [await model.offer(), await Browser().offer()]
    answer = await ask(media, Offer(call="listener", sdp=await listener.offer()))
    assert isinstance(answer, Answer)
    await listener.accept(answer.sdp)
    listener.say(" ".join([LONG] * 9))
    await listener.event("output_audio_buffer.started")
    answered = 0
    for number in range(count):
        sdp = mutate.text(rng, rng.choice(valid))
        session: Any = mutate.value(rng, {"type": "realtime", "model": "tone", "audio": {"output": {"voice": "default"}}})
        offer = Offer(call=f"{number}", sdp=sdp, session=session if isinstance(session, dict) and rng.random() < 0.3 else {})
        if not sent(offer):
            continue
        async with asyncio.timeout(WITHIN):
            reply = await ask(media, offer)
        assert isinstance(reply, Answer | Refused), sdp
        assert isinstance(reply, Answer) or (reply.status == 400 and reply.message), reply
        answered += isinstance(reply, Answer)
        await ask(media, HangUp(call=f"{number}"))
    now = await stats(media)
    assert 0 < answered < count, "some are right still, and others are not"
    assert (now.peers, now.underruns) == (1, 0) and len(now.playing) == 1
    await listener.close()
    await model.close()
    await media.close()
    assert (await stats(media)).peers == 0


@pytest.mark.parametrize("count", [2, pytest.param(40, marks=pytest.mark.chaos)])
async def test_what_is_no_message_ends_no_other_s_call(count: int) -> None:
    """Below the events: text that is no UTF-8, kinds of messages that there are not, channels that open twice. aiortc ends the
    call at some of it, and says so in the log."""
    rng, media = random.Random(count), server(ToneTransport(4.0))
    listener = Browser()
    answer = await ask(media, Offer(call="listener", sdp=await listener.offer()))
    assert isinstance(answer, Answer)
    await listener.accept(answer.sdp)
    listener.say(" ".join([LONG] * 9))
    await listener.event("output_audio_buffer.started")
    for number in range(count):
        browser = Browser()
        answer = await ask(media, Offer(call=f"{number}", sdp=await browser.offer()))
        assert isinstance(answer, Answer)
        await browser.accept(answer.sdp)
        await browser.event("session.created")
        sctp, stream = browser.channel.transport, browser.channel.id
        for _ in range(20):
            with contextlib.suppress(ConnectionError):  # it has been let go
                await sctp._send(
                    rng.choice([stream, stream + 2]), rng.choice([50, 51, 53, 56, 57, 99]), rng.randbytes(rng.randrange(1, 40))
                )
        await ask(media, HangUp(call=f"{number}"))
        await browser.close()
    now = await stats(media)
    assert (now.peers, now.underruns, len(now.playing)) == (1, 0, 1)
    await listener.close()
    await media.close()
