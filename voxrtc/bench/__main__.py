"""`python -m voxrtc.bench NAME …`: runs `voxrtc.bench.NAME`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import voxrtc.bench


def main() -> None:
    names = sorted(module.name for module in pkgutil.iter_modules(voxrtc.bench.__path__) if not module.ispkg)
    names.remove("__main__")
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"usage: python -m voxrtc.bench {{{','.join(names)}}} …")
    importlib.import_module(f"voxrtc.bench.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
