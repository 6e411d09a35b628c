"""A child process ends with its parent, however the parent ended."""

from __future__ import annotations

import os
import sys
import threading


def die_with_parent() -> None:
    """Watch standard input, a pipe from the parent, and end this process at its end of file."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
