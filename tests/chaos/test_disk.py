"""A disk that is full, for all that the program writes: it starts, speaks and ends as ever, and says of what it cannot do how
much is lacking. As root: it mounts small disks, in a namespace of the program's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cards import TINY, fetched, lark_card, pocket_card
from tests.chaos.beside import lengths, unaware
from tests.chaos.house import EVERY, House
from tests.fake_hub import Hub, serving
from tests.program import READY_WITHIN, ROOT, below, runs
from tests.waiting import answered, eventually, until

MOUNT = """
mount -t tmpfs -o size=64k full "$1" && mount -t tmpfs -o size="$3" files "$2" || exit 1
dd if=/dev/zero of="$1/filler" bs=4k 2>/dev/null
exec "$4" app.py
"""
SPARE = 200_000  # bytes that the model's disk has beyond what its files take
WRITTEN = ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "TMPDIR", "GRADIO_TEMP_DIR", "HF_HOME")

pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and os.geteuid() == 0 and shutil.which("unshare")),
    reason="it takes root to mount a small disk",
)


class Cramped:
    """The program, with hardly any room."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, files: Path) -> None:
        self.process, self.url = process, url
        self._files = Path(f"/proc/{process.pid}/root{files}")  # as it sees them

    def fill(self) -> None:
        with pytest.raises(OSError), (self._files / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))

    def clear(self) -> None:
        (self._files / "filler").unlink()

    @property
    def parts(self) -> list[str]:
        return [path.name for path in self._files.rglob("*.part")]


@contextmanager
def cramped(tmp_path: Path, hub: Hub) -> Iterator[Cramped]:
    full, models = tmp_path / "full", tmp_path / "models"
    files = models / "tiny"
    full.mkdir(), files.mkdir(parents=True)
    lark_card(models)
    pocket_card(models, **fetched())
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = os.environ | dict.fromkeys(WRITTEN, str(full)) | {"HOST": "127.0.0.1", "PORT": str(port)}
    environment |= {
        "VOXRTC_MODELS": str(models),
        "VOXRTC_ICE_LOOPBACK": "1",
        "HF_ENDPOINT": hub.url,
        "VOXRTC_LOG_LEVEL": "DEBUG",
    }
    size = sum(path.stat().st_size for path in TINY.rglob("*") if path.is_file()) + SPARE
    command = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        MOUNT,
        "sh",
        full,
        files,
        str(size),
        sys.executable,
    ]
    with open("/dev/full", "wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: process.poll() is not None or _ready(url), READY_WITHIN)
        assert process.poll() is None, "it did not start"
        yield Cramped(process, url, files)
        family = below(process.pid)
        process.send_signal(signal.SIGINT)
        process.wait(30)
        eventually(lambda: not any(map(runs, family)), 10)
    finally:
        process.kill()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_it_does_without_what_it_cannot_write(tmp_path: Path) -> None:
    hub = Hub(gate=threading.Event())
    hub.add("birds/tiny", TINY)
    with serving(hub), cramped(tmp_path, hub) as program:
        asyncio.run(_live(program, hub))


async def _live(program: Cramped, hub: Hub) -> None:
    async with httpx.AsyncClient(base_url=program.url, timeout=60) as http:
        house, real = House(program.process.pid, http), await lengths(http)
        async with unaware(house, real):
            await answered(lambda: _chat_has_failed(http), within=120, every=EVERY)
            assert (await http.post("/v1/voxrtc/models/tiny/load", json={})).status_code == 202
            await until(lambda: program.parts, 60, EVERY)
            program.fill()
            assert hub.gate
            hub.gate.set()
            failed = await _until(http, "failed")
            print(f"  {failed['message']}")
            assert "it is full, and 0.00 GB more are needed" in failed["message"]
            program.clear()
            assert (await http.post("/v1/voxrtc/models/tiny/load", json={})).status_code == 202
            await _until(http, "ready")
            assert not program.parts
            assert any(span and span != "bytes=0-" for _, span in hub.downloads), "it went on where it stopped"
            answer = await http.post("/v1/audio/speech", json={"model": "tiny", "input": "Hello.", "response_format": "pcm"})
            assert answer.status_code == 200 and answer.content
        await house.idle()


async def _chat_has_failed(http: httpx.AsyncClient) -> bool:
    told = (await http.get("/v1/voxrtc/replies")).json()
    if told["state"] == "failed":
        print(f"  {told['words']}")
        assert "takes 0.27 GB" in told["words"] and "XDG_CACHE_HOME" in told["words"]
    return bool(told["state"] == "failed")


async def _until(http: httpx.AsyncClient, state: str) -> dict[str, Any]:
    """The model `tiny`, once it is so far."""

    async def look() -> dict[str, Any] | None:
        models = (await http.get("/v1/voxrtc/models")).json()["models"]
        return next((model for model in models if model["name"] == "tiny" and model["state"] == state), None)

    found = await answered(look, within=90, every=EVERY)
    assert found
    return found
