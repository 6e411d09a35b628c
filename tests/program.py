"""The program in a process of its own, as a person starts it (`python app.py`), and single processes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import httpx

from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[1]
READY = "VoxRTC is ready: "
READY_WITHIN = 180.0  # s, for a cold start beside other work on a small machine


def launched(output: int | IO[bytes], *arguments: str, **settings: str) -> subprocess.Popen[str]:
    """`app.py` on a free port of this machine, where the settings say no other; what it prints goes to `output`."""
    environment = os.environ | {"HOST": "127.0.0.1", "PORT": "0"} | settings
    command = [sys.executable, "app.py", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True)


class Running(httpx.Client):
    """An HTTP client of a program that runs, and that program's process."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        super().__init__(base_url=url, timeout=60)
        self.process, self.pid = process, process.pid


@contextmanager
def running(log: Path, **settings: str) -> Iterator[Running]:
    """A server with these settings, from ready to stopped. Nobody answers in it unless they say who."""
    settings = {"VOXRTC_CHAT_LOCAL": "none", "VOXRTC_ICE_LOOPBACK": "1"} | settings
    with log.open("wb") as output:
        process = launched(output, **settings)
        try:
            with Running(_address(process, log), process) as client:
                yield client
        finally:
            _stop(process)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """What it prints when it is ready."""
    eventually(lambda: READY in log.read_text() or process.poll() is not None, READY_WITHIN)
    said = log.read_text()
    assert READY in said, f"the server did not become ready (exit status {process.poll()}):\n{said[-4000:]}"
    return said.split(READY)[1].split()[0]


def _stop(process: subprocess.Popen[str]) -> None:
    """As a person does it, by Ctrl-C; it fails when that leaves something running."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@contextmanager
def process_of(module: str, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m module`, killed in the end. Its standard input is its lifeline."""
    command, environment = [sys.executable, "-m", module, *arguments], os.environ | settings
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def children(of: int) -> set[int]:
    """The processes that this one has started, in any of its threads, and that run; on Linux."""
    found = set[int]()
    for thread in Path(f"/proc/{of}/task").iterdir():
        with suppress(OSError):  # a thread may end meanwhile
            found |= set(map(int, (thread / "children").read_text().split()))
    return found


def below(parent: int) -> dict[int, list[str]]:
    """The processes that come from this one, with their command lines; not itself."""
    parents, words = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, ancestor = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                parents[int(folder.name)] = int(ancestor)
                words[int(folder.name)] = (folder / "cmdline").read_text().rstrip("\0").split("\0")

    def comes(pid: int) -> bool:
        return pid in parents and (parents[pid] == parent or comes(parents[pid]))

    return {pid: words[pid] for pid in parents if comes(pid)}


def runs(pid: int) -> bool:
    """It is there, and no zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def module(pid: int) -> str:
    """What a process of Python's runs, as in `python -m`; empty when it is gone."""
    with suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return words[words.index("-m") + 1]
    return ""


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
