"""Addresses that an operator names, and this program then sends a key to, or sound: what they may be. Pure."""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import urlsplit

# Where clouds tell their machines' secrets, besides the link-local addresses (RFC 3927, RFC 4291)
METADATA_NAMES = ("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal")
METADATA = [ipaddress.ip_network(each) for each in ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254")]

# As RFC 7064 and 7065 spell them, as far as aiortc and browsers read it: TLS is over TCP. IPv6 by number is for browsers alone
_NAME, _PORT = r"[^?:/@\s\[\]]+", r"(:(?P<port>[0-9]{1,5}))?"
STUN = re.compile(rf"stun:{_NAME}{_PORT}")
TURN = re.compile(rf"(?!turns:.*=udp$)turns?:({_NAME}|\[[0-9a-fA-F:.]+\]){_PORT}(\?transport=(udp|tcp))?")


def checked(url: str) -> str:
    """The address of an endpoint. Raises `ValueError` with what is wrong: it is http or https, and no cloud's metadata."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("it is an address that begins with https:// or http://, like https://api.example.org/v1")
    if parts.username or parts.password:
        raise ValueError("it holds a name or a password, which logs would show; the key has a setting of its own")
    if parts.query or parts.fragment:
        raise ValueError("it ends before any ? or #, as it is the beginning of several addresses")
    address = _address(host)
    if host in METADATA_NAMES or (address and _is_local_to_a_link(address)):
        raise ValueError(f"{host} is where a cloud tells its machines' secrets, and no endpoint")
    return url


def names(kind: re.Pattern[str], url: str) -> bool:
    """Whether that is the address of such a server: `STUN` or `TURN`."""
    match = kind.fullmatch(url)
    return bool(match and 0 < int(match["port"] or 3478) < 1 << 16)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that `host` is, in whatever way it is written: resolvers take 2852039166 and 0xa9.0xfe.43518 for one."""
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        pass
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address


def _is_local_to_a_link(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_link_local or address.is_unspecified or address.is_multicast or any(address in each for each in METADATA)
