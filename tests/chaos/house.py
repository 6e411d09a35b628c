"""The program from outside: its processes, what each holds, and what it says of itself."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.census import Held, held
from tests.program import below
from tests.waiting import answered

EVERY = 0.1  # seconds between two looks: who looked all the time would load the server that is looked at
ROLES = {
    "voxrtc.engine.process": "replica",
    "voxrtc.engine.cluster": "engine",
    "voxrtc.chat.media": "media",
    "voxrtc.asr.process": "speech to text",
}


def kill(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def chromium() -> set[int]:
    """The processes of a Chromium of ours."""
    return {pid for pid, words in below(os.getpid()).items() if "chrom" in Path(words[0].split(" ")[0]).name}


class House:
    """A program that runs under `pid` and is reached by `http`."""

    def __init__(self, pid: int, http: httpx.AsyncClient) -> None:
        self.pid, self.http = pid, http

    def processes(self) -> dict[str, list[int]]:
        """By what they do."""
        found = defaultdict(list, {"web": [self.pid]})
        for pid, words in below(self.pid).items():
            module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
            if role := "replica" if words[0].startswith("ray::Actor") else ROLES.get(module, ""):
                found[role].append(pid)
        return {role: sorted(pids) for role, pids in found.items()}

    def looks(self) -> dict[str, list[Held]]:
        """What each process holds."""
        return {role: [held(pid) for pid in pids] for role, pids in self.processes().items()}

    async def stats(self) -> dict[str, Any] | None:
        """None while it has no engine or no media process."""
        answer = await self.http.get("/v1/voxrtc/stats")
        return answer.json() if answer.status_code == 200 else None

    async def ready(self, within: float) -> None:
        """Until it can be called, with all its replicas."""

        async def look() -> bool:
            stats = await self.stats()
            ready = await self.http.get("/readyz")
            return stats is not None and len(stats["engines"]["lark"]["replicas"]) == 2 and ready.status_code == 200

        await answered(look, within=within, every=EVERY)

    async def idle(self) -> dict[str, Any]:
        """Until nobody is spoken to, there, or waited for; its stats then."""

        async def look() -> dict[str, Any] | None:
            stats = await self.stats()
            engine, media = (stats["engines"]["lark"], stats["media"]) if stats else ({"streams": [0]}, {})
            return None if engine["streams"] or media["peers"] or media["playing"] or media["kept"] else stats

        stats = await answered(look, within=60, every=EVERY)  # a session is kept for 30 s after its line broke
        assert stats
        return stats
