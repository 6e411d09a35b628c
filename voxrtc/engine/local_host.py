"""Replicas as processes of this machine, one a GPU where there are several."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from voxrtc.engine.client import Transport
from voxrtc.engine.transport import ZmqTransport
from voxrtc.settings import HUB_TOKENS, Settings
from voxrtc.supervisor import Child, Supervisor


class LocalHost:
    """`replicas.Host` by a supervisor, which starts again whoever dies. Sockets are in `folder`."""

    def __init__(self, settings: Settings, folder: Path, gpus: int) -> None:
        self._settings, self._folder, self._gpus = settings, folder, gpus
        self._supervisor = Supervisor()
        self._at: dict[str, int] = {}  # replicas' GPUs, where there is a choice

    async def find(self, name: str, tell: Callable[[str], None]) -> Transport:
        address = f"ipc://{self._folder / name}"
        if not self._supervisor.runs(name):
            environment = self._settings.environment(*HUB_TOKENS)
            if self._gpus > 1 and self._settings.device in ("auto", "cuda"):
                environment["VOXRTC_DEVICE"] = f"cuda:{self._place(name)}"
            # The others may be speaking, now or when it is started again
            arguments = ["-m", "voxrtc.engine.process", "--listen", address, "--beside-others"]
            self._supervisor.start(Child(name, arguments, environment))
        return ZmqTransport(address)

    def _place(self, name: str) -> int:
        """The GPU that fewest have."""
        taken = list(self._at.values())
        self._at[name] = min(range(self._gpus), key=taken.count)
        return self._at[name]

    async def stop(self, name: str) -> None:
        await self._supervisor.stop(name)
        self._at.pop(name, None)

    async def close(self) -> None:
        for name in list(self._supervisor.children):
            await self._supervisor.stop(name)
