"""What the processes of a server hold: memory, files, threads, and what they say themselves in `/metrics`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.program import children, module

IDLE = {  # of `/metrics`: nothing is left that anybody began
    "voxrtc_peers",
    "voxrtc_sessions_kept",
    "voxrtc_responses_playing",
    "voxrtc_streams_active",
    "voxrtc_kv_pages_used",
}


@dataclass(frozen=True)
class Held:
    """By one process. `own` is memory that it shares with no other (USS), kB."""

    rss: int
    own: int
    threads: int
    files: int


def held(pid: int) -> Held:
    process = Path(f"/proc/{pid}")
    status = _fields(process / "status")
    memory = _fields(process / "smaps_rollup")
    files = len(list((process / "fd").iterdir()))
    return Held(status["VmRSS"], memory["Private_Clean"] + memory["Private_Dirty"], status["Threads"], files)


def _fields(file: Path) -> dict[str, int]:
    """Those with a number, mostly kB."""
    return {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)", file.read_text(), re.M)}


def everybody(server: int) -> dict[str, Held]:
    """The server's process and its children, by module."""
    return {"voxrtc.web": held(server)} | {module(pid): held(pid) for pid in children(server) if module(pid)}


def samples(text: str) -> dict[str, float]:
    """Metrics, by name and labels as they are written."""
    return {name: float(value) for name, value in re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", text, re.M)}


def parsed(text: str) -> dict[str, float]:
    """Metrics: those without labels, and of those with the sum."""
    found: dict[str, float] = {}
    for sample, value in samples(text).items():
        name = sample.partition("{")[0]
        found[name] = found.get(name, 0.0) + value
    return found


def metrics(http: httpx.Client) -> dict[str, float]:
    return parsed(http.get("/metrics").text)


def idle(http: httpx.Client) -> bool:
    """Nobody is there, and nothing is left of those who were."""
    now = metrics(http)
    return not any(now[name] for name in IDLE)
