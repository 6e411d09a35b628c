"""How fast models were on this machine, kept in the user's cache from one run to the next."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import msgspec

FILE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voxrtc" / "speeds.json"
NEWS = 0.05  # a change of less is not worth writing down

log = logging.getLogger(__name__)


class Learned:
    """Speeds by the folder of a model's files, since a name may come to mean another model; `where` it computes counts, too."""

    def __init__(self, where: str, file: Path = FILE) -> None:
        self._where, self._file = where, file
        self._speeds = self._read()

    def speed(self, folder: Path) -> float | None:
        """Seconds of sound a second, if it is known."""
        return self._speeds.get(str(folder.resolve()), {}).get(self._where)

    def note(self, folder: Path, speed: float) -> None:
        """It was so fast now. Where the file cannot be written, this run knows it all the same."""
        before = self.speed(folder)
        if before and abs(speed / before - 1) < NEWS:
            return
        there = {known: speeds for known, speeds in {**self._read(), **self._speeds}.items() if Path(known).exists()}
        mine = {**there.get(str(folder.resolve()), {}), self._where: round(speed, 3)}
        self._speeds = {**there, str(folder.resolve()): mine}
        part = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(msgspec.json.encode(self._speeds))
                part.replace(self._file)
            finally:
                part.unlink(missing_ok=True)  # of a disk that is full

    def _read(self) -> dict[str, dict[str, float]]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, dict[str, float]])
        except OSError:
            return {}
        except msgspec.DecodeError:
            log.warning("%s is damaged; what models are worth here is learned anew", self._file)
            return {}
