"""How many listeners the media process serves on one core with its packets in time: ours beside stock aiortc.

`python -m voxrtc.bench peers`. In time: the 99th percentile of the gaps between packets is at most 40 ms, and none is missing.
The server has a core for itself, all others have the rest (Linux only).
"""

from __future__ import annotations

import argparse
import os

from voxrtc.bench.beside import KINDS
from voxrtc.bench.rtc import cpu, listener_process, measured, served
from voxrtc.bench.search import Search

IN_TIME = 40.0  # ms
WHOLE = 0.98  # of the packets that there should be
MOST = 400


def in_time(kind: str, peers: int, seconds: float, core: int) -> bool:
    """One run."""
    with served(kind, listener_process, peers, seconds, core=core) as (server, ears):
        result = measured(ears, lambda: cpu(server), peers, seconds)
    told = f"p99 gap {result.p99_gap_ms:.0f} ms, {100 * result.delivered:.0f}% of the packets"
    print(f"  {kind}, {peers}: {told}, {result.cpu_ms_per_peer_second:.1f} ms of the core per peer-second", flush=True)
    return result.p99_gap_ms <= IN_TIME and result.delivered >= WHOLE


def most(kind: str, seconds: float, core: int) -> int:
    """The largest number of listeners, to a tenth."""
    search = Search(60, precision=1.1, lowest=1, highest=MOST, step=2)
    while not search.done:
        search.tell(in_time(kind, round(search.rate), seconds, core))
    return round(search.good)


def main(arguments: list[str]) -> None:
    """Both kinds, and how many times as many are ours."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench peers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6, help="measured in each run")
    options = parser.parse_args(arguments)
    core, *others = sorted(os.sched_getaffinity(0), reverse=True)
    if not others:
        parser.error("this takes two cores, one for the server alone")
    os.sched_setaffinity(0, others)  # what is started from here on stays there
    found = {kind: most(kind, options.seconds, core) for kind in KINDS}
    ours, stock = (found[kind] for kind in KINDS)
    print(f"listeners on one core: ours {ours}, stock aiortc {stock}: {ours / stock:.1f} times as many")
