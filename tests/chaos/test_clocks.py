"""The wall's clock is set, an event loop stands, the machine sleeps: nobody hears more of it than the time that it took."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.chaos.beside import LONG, Ear, lengths, scrape, unaware
from tests.chaos.house import House, below
from tests.chaos.listeners import Download
from tests.program import Running, running

FAKETIME = next(iter(Path("/usr").glob("lib*/*/faketime/libfaketimeMT.so.1")), None)
JUMPS = ("+1h", "-1h", "+1d", "-1d", "+400d", "-0")
STOPS = 12  # of 0.5 s, each
ASLEEP = 10.0  # seconds


@pytest.mark.skipif(not FAKETIME, reason="libfaketime is not there: apt-get install faketime")
def test_a_clock_that_is_set_is_not_heard(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("-0")
    faked = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with running(tmp_path / "log.txt", **faked) as program:
        asyncio.run(_set(program, clock))


async def _set(program: Running, clock: Path) -> None:
    async with httpx.AsyncClient(base_url=program.base_url, timeout=60) as http:
        house, real = House(program.pid, http), await lengths(http)
        async with unaware(house, real):
            for jump in JUMPS:
                clock.write_text(jump)
                await asyncio.sleep(4)
                shown = time.mktime(time.strptime((await http.get("/healthz")).headers["date"], "%a, %d %b %Y %H:%M:%S GMT"))
                print(f"  {jump}: the server's clock is {shown - time.mktime(time.gmtime()):+.0f} s off")
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
        ear.speak(LONG)
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
        before = house.looks()
        ear, download = Ear(), Download(http, 0)
        await ear.call(http)
        ear.speak(LONG)
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
