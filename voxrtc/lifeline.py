"""A child process ends with its parent, however the parent ended."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable


def when_parent_ends(then: Callable[[], object]) -> None:
    """Watch standard input, a pipe from the parent, and call `then`, on a thread of its own, at its end of file."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        then()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def die_with_parent() -> None:
    """End this process with its parent."""
    when_parent_ends(lambda: os._exit(0))
