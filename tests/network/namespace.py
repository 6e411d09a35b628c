"""A network namespace of Linux: a machine of its own, as far as the network goes. It ends with the last that is in it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEW_NETWORK = 0x40000000  # CLONE_NEWNET, sched.h
HERE = "/proc/thread-self/ns/net"
CREATE = 0x400454CA  # TUNSETIFF, linux/if_tun.h
TUN, PLAIN = 0x0001, 0x1000  # IFF_TUN: IP packets; IFF_NO_PI: and nothing before them
DEVICE = "eth0"  # by a name of a tunnel's Chromium would take it for a VPN

_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """Empty but for its loopback, until `plug`. Raises `OSError` where the process may not make one."""

    def __init__(self) -> None:
        before = os.open(HERE, os.O_RDONLY)
        try:
            _call(_libc.unshare(NEW_NETWORK))
            self._there = os.open(HERE, os.O_RDONLY)
            Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
            self._ip("link", "set", "lo", "up")
        finally:
            _call(_libc.setns(before, NEW_NETWORK))
            os.close(before)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This thread is in it meanwhile: sockets that it opens and processes that it starts are and stay there."""
        before = os.open(HERE, os.O_RDONLY)
        _call(_libc.setns(self._there, NEW_NETWORK))
        try:
            yield
        finally:
            _call(_libc.setns(before, NEW_NETWORK))
            os.close(before)

    def plug(self, address: str) -> int:
        """Make its network device, with this address in a /24 and everything else behind it. A file of its IP packets."""
        with self.inside():
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, CREATE, struct.pack("16sH22x", DEVICE.encode(), TUN | PLAIN))
            self._ip("addr", "add", f"{address}/24", "dev", DEVICE)
            self._ip("link", "set", DEVICE, "up")
            self._ip("route", "add", "default", "dev", DEVICE)
        return device

    def move(self, old: str, new: str) -> None:
        """As a laptop that comes into another network: the old address goes, and the new one is there at once."""
        with self.inside():
            self._ip("addr", "add", f"{new}/24", "dev", DEVICE)
            self._ip("addr", "del", f"{old}/24", "dev", DEVICE)
            self._ip("route", "replace", "default", "dev", DEVICE)

    def limit(self, mtu: int) -> None:
        """Its device takes IP packets of so many bytes at most."""
        with self.inside():
            self._ip("link", "set", DEVICE, "mtu", str(mtu))

    def close(self) -> None:
        os.close(self._there)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def _call(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
