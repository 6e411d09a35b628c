"""What is wrong with an offer, said so that a person can act on it."""

from __future__ import annotations

import pytest
from aiortc import RTCPeerConnection

from tests.rtc.browser import Browser
from voxrtc.rtc.ice import configuration
from voxrtc.rtc.offer import BadOffer, checked


async def offer(direction: str = "recvonly") -> str:
    browser = Browser(direction)
    sdp = await browser.offer()
    await browser.close()
    return sdp


async def offer_of(audio: bool, channel: bool) -> str:
    connection = RTCPeerConnection(configuration(""))
    if audio:
        connection.addTransceiver("audio", direction="recvonly")
    if channel:
        connection.createDataChannel("oai-events")
    await connection.setLocalDescription(await connection.createOffer())
    sdp = connection.localDescription.sdp
    await connection.close()
    return str(sdp)


@pytest.mark.parametrize("sdp", ["", "hello", "v=0", "v=0\r\n", "v=0\r\nm=audio", "v=0\r\nm=audio x y z\r\na=mid:0\r\n", "{}"])
def test_what_is_no_sdp_is_refused(sdp: str) -> None:
    with pytest.raises(BadOffer):
        checked(sdp)


async def test_audio_and_data_channel_are_needed() -> None:
    with pytest.raises(BadOffer, match="audio section") as refusal:
        checked(await offer_of(audio=False, channel=True))
    assert refusal.value.code == "no_audio"
    with pytest.raises(BadOffer, match="oai-events") as refusal:
        checked(await offer_of(audio=True, channel=False))
    assert refusal.value.code == "no_data_channel"
    with pytest.raises(BadOffer, match="recvonly"):
        checked(await offer("sendonly"))


async def test_opus_and_credentials_are_needed() -> None:
    sdp = await offer()
    with pytest.raises(BadOffer, match="Opus"):
        checked(sdp.replace("opus/48000/2", "speex/16000"))
    with pytest.raises(BadOffer, match="ICE"):
        checked("".join(line for line in sdp.splitlines(keepends=True) if "ice-pwd" not in line))
    with pytest.raises(BadOffer, match="DTLS"):
        checked("".join(line for line in sdp.splitlines(keepends=True) if "fingerprint" not in line))


async def test_a_bundle_of_sections_that_are_not_there_is_refused() -> None:
    """aiortc takes it, and then can neither connect nor close: who had sent it, and who hung up, waited for ever."""
    sdp = await offer()
    audio = next(line for line in sdp.splitlines() if line.startswith("a=mid:"))
    for wrong in (sdp.replace(f"{audio}\r\n", ""), sdp.replace(audio, "a=mid:9"), sdp.replace("a=mid:1", audio)):
        with pytest.raises(BadOffer, match="BUNDLE") as refusal:
            checked(wrong)
        assert refusal.value.code == "invalid_offer"


async def test_an_offer_of_more_than_any_browser_s_is_refused() -> None:
    sdp = await offer()
    section = sdp[sdp.index("m=audio") : sdp.index("m=application")]
    many = sdp + "".join(section.replace("a=mid:0", f"a=mid:{number}") for number in range(2, 9))
    with pytest.raises(BadOffer, match="8 sections; this one has 9") as refusal:
        checked(many)
    assert refusal.value.code == "offer_too_large"
    candidate = "a=candidate:1 1 udp 2122260223 192.0.2.7 50000 typ host\r\n"
    with pytest.raises(BadOffer, match="64 candidates"):
        checked(sdp + 65 * candidate)
    assert checked(sdp + 32 * candidate)


async def test_mdns_names_are_left_out_and_the_rest_stays() -> None:
    sdp = await offer()
    name = "a=candidate:1 1 udp 2122260223 8f1c2a34-0000-4000-8000-123456789abc.local 50000 typ host\r\n"
    assert ".local" not in checked(sdp + name)
    left_out = set(sdp.splitlines()) - set(checked(sdp).splitlines())
    assert left_out == {"a=end-of-candidates"}
