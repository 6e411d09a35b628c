"""The dashboard's bench counts what it says it counts."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

from fastapi import FastAPI

from tests.serving import serving
from tests.waiting import until
from voxrtc.api import live
from voxrtc.api.feed import Feed, Source
from voxrtc.bench.dashboard import cpu, viewers

BUSY = "import subprocess, sys; sum(range(10**7)); subprocess.run([sys.executable, '-c', 'sum(range(10**7)); input()'])"


def test_what_a_process_started_counts_too() -> None:
    """And nobody else's."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE) as parent:
        while len(used := cpu(parent.pid)) < 2 or min(used.values()) < 0.05:
            assert parent.poll() is None
        assert parent.pid in used and os.getpid() not in used
        assert parent.stdin
        parent.stdin.write(b"\n")


async def test_each_viewer_sees_each_tick_and_leaves() -> None:
    numbers = itertools.count()

    async def count() -> int:
        return next(numbers)

    app, feed = FastAPI(), Feed({"stats": Source(count)})
    app.include_router(live.router(feed))
    with serving(app) as (_, port):
        async with viewers(port, 3) as seen:
            await until(lambda: min(seen) >= 3)
        await until(lambda: not feed._viewers)
