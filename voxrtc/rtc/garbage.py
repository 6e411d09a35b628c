"""When Python looks for objects that only hold each other, which are what most of a closed peer consists of."""

from __future__ import annotations

import gc
import itertools

NEW = 20_000  # objects that came since the last look at the new ones. With Python's own 700, a look at all that there are came
# every few seconds while 220 listened, and took up to 0.1 s, in which no packet goes out
PEERS = 50  # that were closed are worth a look at all: 8 MB

_closed = itertools.count(1)


def settle() -> None:
    """What is there by now stays, and is looked at no more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW, *gc.get_threshold()[1:])


def closed() -> None:
    """A peer was."""
    if next(_closed) % PEERS == 0:
        gc.collect()
