"""Whose work goes first where cores are short: a packet is due every 20 ms, a step of a model can wait a moment.

Every child of ours has a session of its own (`supervisor`), which Linux may schedule as one (sched(7), autogroup): between
sessions `os.nice` has no say then, the group's value has, and anyone may take it back. Elsewhere it is the other way round.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

GROUP = Path("/proc/self/autogroup")
YIELDING = 5  # more, of a process that loads: a quarter of a processor that others of its kind want too


def give_way(by: int) -> None:
    """This process and what it starts leave the cores to others from now on: 5, about a quarter to a process that does not."""
    _weigh(os.nice(by))


@contextlib.contextmanager
def yielding() -> Iterator[None]:
    """Leave the processor to models that speak, meanwhile. Has an effect only where sessions are scheduled."""
    usual = os.nice(0)
    _weigh(usual + YIELDING)
    try:
        yield
    finally:
        _weigh(usual)


def _weigh(nice: int) -> None:
    if os.getsid(0) != os.getpid():
        return  # not ours alone: a person's shell, or a host of actors
    for _ in range(10):
        try:
            GROUP.write_text(str(min(nice, 19)))
            return
        except BlockingIOError:  # it may be changed ten times a second, by whomever
            time.sleep(0.1)
        except OSError:
            return
