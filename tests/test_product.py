"""The program as a person starts and stops it: `python app.py`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.engine.test_loading import TINY, fetched, pocket_card
from tests.fake_hub import Hub, serving

ROOT = Path(__file__).resolve().parents[1]
FAMILY = {f"voxrtc.{name}" for name in ("chat.media", "asr.process", "engine.process", "crowd.process", "llm.process")}


@contextmanager
def started(folder: Path, *arguments: str, port: int = 0) -> Iterator[subprocess.Popen[str]]:
    """`app.py` with its temporary files in `folder`, its standard output and errors in a pipe."""
    environment = {**os.environ, "TMPDIR": str(folder), "HOST": "127.0.0.1", "PORT": str(port)}
    command = [sys.executable, "app.py", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def address(process: subprocess.Popen[str]) -> str:
    """Waits for the line that says it is ready."""
    assert process.stdout
    for line in process.stdout:
        if "is ready: " in line:
            return line.split("is ready: ")[1].strip()
    raise AssertionError(f"it ended with {process.wait()} and was never ready")


def children(of: int) -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{of}/task/{of}/children").read_text().split()}


def module(pid: int) -> str:
    """What a process of Python's runs, as in `python -m`; empty when it is gone."""
    with suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return words[words.index("-m") + 1]
    return ""


def family_of(pid: int, modules: set[str], within: float = 10.0) -> set[int]:
    """Its children, as soon as all of these are there. Others may be: the machine is measured by one."""
    deadline = time.monotonic() + within
    while not modules <= set(map(module, family := children(pid))):
        assert time.monotonic() < deadline, family
        time.sleep(0.02)
    return family


def gone(pids: set[int], within: float = 10.0) -> bool:
    deadline = time.monotonic() + within
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_is_ready_when_it_says_so_and_leaves_nothing_behind(how: signal.Signals, tmp_path: Path) -> None:
    with started(tmp_path) as process:
        url = address(process)
        assert httpx.get(f"{url}/readyz").json()["status"] == "ready"
        httpx.post(f"{url}/v1/voxrtc/crowd", json={"listeners": 2, "peers": 1}).raise_for_status()
        family = family_of(process.pid, FAMILY)
        process.send_signal(how)
        code = process.wait(15)
        assert gone(family)
    if how is not signal.SIGKILL:
        assert code == 0
        assert not list(tmp_path.glob("voxrtc-*"))


@pytest.mark.slow
def test_a_model_that_is_fetched_first_shows_the_page_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models, hub = tmp_path / "models", Hub(gate=threading.Event())
    models.mkdir()
    pocket_card(models, **fetched())
    hub.add("birds/tiny", TINY)
    with serving(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with started(tmp_path, "--models", str(models), "--model", "tiny") as process:
            assert process.stdout
            place, progress = "", ""
            for line in process.stdout:  # in either order
                place = line.split()[-1] if "fetches Pocket-TTS" in line else place
                progress = line if "tiny: downloading" in line else progress
                if place and progress:
                    break
            loading = httpx.get(f"{place}/readyz")
            assert (loading.status_code, loading.json()["status"]) == (503, "not ready")
            assert httpx.get(place).status_code == 200
            assert "of 0 MB" in progress, "the terminal tells how far it is"
            assert hub.gate
            hub.gate.set()
            assert address(process) == place
            assert httpx.get(f"{place}/readyz").json()["models"] == ["tiny"]
            process.send_signal(signal.SIGINT)
            assert process.wait(15) == 0


def test_a_taken_port_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with started(tmp_path, port=taken.getsockname()[1]) as process:
            output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Try another port" in output and "Traceback" not in output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--model", "parrot"], "There is no model “parrot”"),
        (["--chat-local", "parrot"], "There is no model “parrot”"),
        (["--max-peers", "0"], "max_peers"),
        (["--max-waiting", "0"], "max_waiting"),  # every stream waits a moment: none would get in
        (["--turn", "cloudflare"], "VOXRTC_TURN_KEY"),
        (["--colour", "red"], "--colour"),
    ],
)
def test_wrong_settings_are_told_in_a_sentence(arguments: list[str], told: str, tmp_path: Path) -> None:
    with started(tmp_path, *arguments) as process:
        output, _ = process.communicate(timeout=30)
    assert process.returncode != 0
    assert told in output and "Traceback" not in output
