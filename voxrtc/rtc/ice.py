"""How peers are reached: addresses, STUN, and four corrections of the libraries below."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partialmethod
from types import SimpleNamespace

import aioice.ice
import aioice.turn
import aiortc.rtcrtpreceiver
import aiortc.rtcrtpsender
import aiortc.rtcsctptransport
from aiortc import RTCConfiguration, RTCIceServer
from aiortc.rtcicetransport import connection_kwargs

from voxrtc.messages.media import IceServer

# 1280 (the least MTU of IPv6, and of many VPNs) less IPv6, UDP, DTLS and SCTP headers is 1167; aiortc's own 1200
# makes the data channel stall on such a path.
DATA_BYTES = 1100
# These measure by the wall's clock how long something took. When it is set, a data channel waits a minute before it sends anew
# what was lost, browsers are told round trips of hours, and a relay forgets whom we speak with.
MEASURING = (aiortc.rtcsctptransport, aiortc.rtcrtpreceiver, aiortc.rtcrtpsender, aioice.turn)
STEADY = SimpleNamespace(time=time.monotonic)  # in the place of module `time`
STUN_WITHIN = 0.8  # seconds, a second try included; aioice would let a server that says nothing hold every call up for 5

_gather = aioice.ice.Connection.get_component_candidates


def configuration(stun: str, relays: Sequence[IceServer] = ()) -> RTCConfiguration:
    """`stun`: one STUN url, or "" for none. aiortc's own default would ask a server on the internet.

    Of all `relays` aiortc uses one address, so it gets the one that is likeliest to be reached.
    """
    servers = [RTCIceServer(stun)] if stun else []
    if turn := [(url, server) for server in relays for url in server.urls if _is_for_us(url)]:
        url, server = min(turn, key=lambda one: _rank(one[0]))
        servers.append(RTCIceServer(url, server.username, server.credential))
    return RTCConfiguration(iceServers=servers)


def _is_for_us(url: str) -> bool:
    """A relay that aiortc can use. It fails upon addresses that it cannot read, such as IPv6 by number, which browsers can."""
    try:
        return "turn_server" in connection_kwargs([RTCIceServer(url)])
    except ValueError:
        return False


def _rank(url: str) -> tuple[bool, bool]:
    """What gets through the most firewalls first: TLS to the port of HTTPS, any TLS or TCP, UDP."""
    port = url.partition("?")[0].rpartition(":")[2]
    stream = url.startswith("turns:") or url.endswith("transport=tcp")
    return not stream, not (url.startswith("turns:") and port == "443")


def prepare(loopback: bool) -> None:
    """Adapt aiortc in this process, before the first peer.

    `loopback`: offer 127.0.0.1 and nothing else, for tests and benches on one machine; aioice leaves it out.
    """
    aiortc.rtcsctptransport.USERDATA_MAX_LENGTH = DATA_BYTES
    for module in MEASURING:
        assert vars(module)["time"] in (time, STEADY), f"{module.__name__} has changed"
        vars(module)["time"] = STEADY
    limited = partialmethod(_gather, timeout=STUN_WITHIN)
    aioice.ice.Connection.get_component_candidates = limited  # type: ignore[method-assign, assignment]
    if loopback:
        aioice.ice.get_host_addresses = _loopback


def _loopback(use_ipv4: bool, use_ipv6: bool) -> list[str]:
    return ["127.0.0.1"] if use_ipv4 else []
