"""The wall's clock is set, an event loop stands, the machine sleeps: nobody hears more of it than the time that it took."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest

from tests.chaos.beside import LONG, Ear, lengths, scrape, unaware
from tests.chaos.house import House
from tests.chaos.listeners import Download
from tests.program import Running, below, running

HOUR, DAY = 3600, 24 * 3600
JUMPS = (HOUR, -HOUR, DAY, -DAY, 400 * DAY, 0)  # seconds by which the clock is off
STOPS = 12  # of 0.5 s, each
ASLEEP = 10.0  # seconds


@pytest.mark.skipif(
    not (sys.platform == "linux" and shutil.which("cc")), reason="it takes Linux and a C compiler to set its clock"
)
def test_a_clock_that_is_set_is_not_heard(tmp_path: Path) -> None:
    library, offset = tmp_path / "wall.so", tmp_path / "offset"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("wall.c"), "-ldl"], check=True)
    offset.write_bytes(struct.pack("q", 0))
    with running(tmp_path / "log.txt", LD_PRELOAD=str(library), WALL_OFFSET=str(offset)) as program:
        asyncio.run(_set(program, offset))


async def _set(program: Running, offset: Path) -> None:
    async with httpx.AsyncClient(base_url=program.base_url, timeout=60) as http:
        house, real = House(program.pid, http), await lengths(http)
        async with unaware(house, real):
            for jump in JUMPS:
                with offset.open("r+b") as file:  # in place: it is mapped
                    file.write(struct.pack("q", jump))
                await asyncio.sleep(4)
                date = (await http.get("/healthz")).headers["date"]
                shown = parsedate_to_datetime(date).timestamp() - time.time()
                assert abs(shown - jump) < 10, "it was set"
        await house.idle()
        metrics = await scrape(http)
        assert metrics['voxrtc_underruns_total{model="lark"}'] == 0


def test_a_loop_that_stands_half_a_second_bursts_nothing_and_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with running(log) as program:
        asyncio.run(_stop(program))
    told = [line for line in log.read_text().splitlines() if "the event loop stood for" in line]
    assert any(" media WARNING" in line for line in told) and any(" web WARNING" in line for line in told), told


async def _stop(program: Running) -> None:
    async with httpx.AsyncClient(base_url=program.base_url, timeout=60) as http:
        house, real = House(program.pid, http), await lengths(http)
        (media,) = house.processes()["media"]
        ear, downloads = Ear(), [Download(http, seed, way) for seed, way in enumerate(("pcm", "sse"))]
        await ear.call(http)
        ear.have_said(LONG)
        await ear.wait("output_audio_buffer.started")
        living = [asyncio.create_task(each.live()) for each in downloads]
        for number in range(STOPS):
            pid = (media, program.pid)[number % 2]
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(0.5)
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.7)
        for each in downloads:
            each.stop()
        await asyncio.gather(*living)
        played = await ear.wait("voxrtc.playout")
        await ear.close()
        streams = [stream for each in downloads for stream in each.streams]
        assert streams and all(stream.whole(real) for stream in streams), "what goes over HTTP is whole"
        assert abs(played["played_ms"] / 1000 - (await Download(http, 0).hear(LONG)).seconds) < 0.05
        ear.check()
        print(f"  {STOPS} stops, {len(ear.packets)} packets, {ear.most_within(0.02)} at most within 20 ms, {played}")
        assert ear.most_within(0.1) <= 8, "late packets are not made up for"
        metrics = await scrape(http)
        for process in ("media", "web"):
            assert metrics[f'voxrtc_loop_stalls_total{{process="{process}"}}'] >= STOPS / 2 - 1
            assert metrics[f'voxrtc_loop_stalled_seconds_total{{process="{process}"}}'] >= 0.3 * (STOPS / 2 - 1)
        await house.idle()


def test_a_machine_that_slept_goes_on_where_it_was(tmp_path: Path) -> None:
    with running(tmp_path / "log.txt") as program:
        asyncio.run(_sleep(program))


async def _sleep(program: Running) -> None:
    async with httpx.AsyncClient(base_url=program.base_url, timeout=60) as http:
        house, real = House(program.pid, http), await lengths(http)
        whole = (await Download(http, 0).hear(LONG)).seconds
        async with unaware(house, real):
            pass  # all threads that there are to be are there
        await house.idle()
        before = house.looks()
        ear, download = Ear(), Download(http, 0)
        await ear.call(http)
        ear.have_said(LONG)
        await ear.wait("output_audio_buffer.started")
        hearing = asyncio.create_task(download.hear(LONG))
        await asyncio.sleep(2)
        family = [program.pid, *below(program.pid)]
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(ASLEEP)
        for pid in reversed(family):
            os.kill(pid, signal.SIGCONT)
        stream = await hearing
        assert stream.seconds == whole and not stream.told, stream
        played = await ear.wait("voxrtc.playout")
        print(f"  {ear.most_within(0.1)} packets at most within 0.1 s, {played}")
        assert abs(played["played_ms"] / 1000 - whole) < 0.05
        ear.check()
        assert ear.most_within(0.1) <= 8
        await ear.close()
        async with unaware(house, real):
            await asyncio.sleep(2)
        await house.idle()
        for role, looks in house.looks().items():
            for then, now in zip(before[role], looks, strict=True):
                assert now.threads <= then.threads + 2 and now.files <= then.files + 4, (role, then, now)
