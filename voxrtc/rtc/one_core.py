"""To make what is libav's without threads of its own.

PyAV has each encoder resample by a filter graph, which starts a thread for every core and lets itself not be told otherwise:
for each listener two here, 64 on a big machine, and nothing for them to do.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@contextmanager
def one_core() -> Iterator[None]:
    """This thread stays where it is meanwhile, so libav counts one core. (Linux only; elsewhere there are more threads.)"""
    if _libc is None:
        yield
        return
    cores, core = os.sched_getaffinity(0), _libc.sched_getcpu()
    if core not in cores:  # a kernel that does not tell
        yield
        return
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
