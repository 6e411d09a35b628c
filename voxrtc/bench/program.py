"""Programs that are measured from outside: started, awaited, ended, and what they have used."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_EVERY = 0.1  # seconds


def free_port() -> int:
    """Of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def started(
    command: Sequence[str | Path],
    ready: Callable[[], bool],
    within: float,
    trouble: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: IO[bytes] | None = None,
) -> Iterator[int]:
    """Its process id, once it is `ready`. Ends the bench with `trouble` when that takes more than `within` seconds."""
    with subprocess.Popen(command, cwd=cwd, env={**os.environ, **(environment or {})}, stdout=log, stderr=log) as process:
        try:
            until = time.monotonic() + within
            while not ready():
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(trouble)
                time.sleep(LOOK_EVERY)
            yield process.pid
        finally:
            process.terminate()


def stat(process: int | str) -> list[str]:
    """The fields of proc(5)'s stat behind the name, from the state on. Raises `OSError` when it is gone."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def seconds(fields: Sequence[str]) -> float:
    """CPU seconds of a process, all its threads, by its `stat`: utime and stime."""
    return (int(fields[11]) + int(fields[12])) / TICKS
