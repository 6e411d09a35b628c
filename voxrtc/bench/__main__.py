"""`python -m voxrtc.bench NAME …`: runs `voxrtc.bench.NAME`."""

from __future__ import annotations

import importlib
import sys

COMMANDS = [
    "crowd",
    "dashboard",
    "echo",
    "fastrtc",
    "flow",
    "goodput",
    "idle",
    "microphone",
    "models",
    "peers",
    "rtc",
    "scale",
    "simulate",
    "soak",
    "sound",
    "stages",
    "turns",
]


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m voxrtc.bench {{{','.join(COMMANDS)}}} …")
    importlib.import_module(f"voxrtc.bench.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
