"""The program as a person starts and stops it: `python app.py`."""

from __future__ import annotations

import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.cards import TINY, fetched, pocket_card
from tests.fake_hub import Hub, serving
from tests.program import READY, ROOT, alive, children, launched, module
from tests.waiting import PATIENCE, eventually

FAMILY = {f"voxrtc.{name}" for name in ("chat.media", "asr.process", "engine.process", "crowd.process", "llm.process")}
LINUX = Path("/proc/self/task").exists()


@contextmanager
def started(folder: Path, *arguments: str, port: int = 0) -> Iterator[subprocess.Popen[str]]:
    """`app.py` with its temporary files in `folder`, its standard output and errors in a pipe."""
    with launched(subprocess.PIPE, *arguments, TMPDIR=str(folder), PORT=str(port)) as process:
        try:
            yield process
        finally:
            process.kill()


def address(process: subprocess.Popen[str]) -> str:
    """Waits for the line that says it is ready."""
    assert process.stdout
    for line in process.stdout:
        if READY in line:
            return line.split(READY)[1].strip()
    raise AssertionError(f"it ended with {process.wait()} and was never ready")


def family_of(pid: int) -> set[int]:
    """Its children, as soon as the whole family is there. Others may be: the machine is measured by one."""
    return eventually(lambda: family if set(map(module, family := children(pid))) >= FAMILY else set())


def drain(process: subprocess.Popen[str], url: str) -> None:
    """SIGTERM while somebody listens, who hears the end; nobody new is let in meanwhile."""
    wish = {"input": "It is told to the end. " * 12, "response_format": "pcm"}
    with httpx.stream("POST", f"{url}/v1/audio/speech", json=wish, timeout=PATIENCE) as answer:
        parts = answer.iter_raw()
        heard = next(parts)
        process.send_signal(signal.SIGTERM)
        eventually(lambda: httpx.get(f"{url}/readyz", timeout=PATIENCE).status_code == 503)
        late = httpx.post(f"{url}/v1/audio/speech", json={"input": "One more."}, timeout=PATIENCE)
        assert (late.status_code, late.json()["error"]["code"]) == (503, "shutting_down")
        heard += b"".join(parts)
    assert len(heard) > 12 * 24_000 * 2, "more than a second of sound for each time that it is said"


@pytest.mark.skipif(not LINUX, reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_is_ready_when_it_says_so_and_leaves_nothing_behind(how: signal.Signals, tmp_path: Path) -> None:
    with started(tmp_path) as process:
        url = address(process)
        assert httpx.get(f"{url}/readyz", timeout=PATIENCE).json()["status"] == "ready"
        httpx.post(f"{url}/v1/voxrtc/crowd", json={"listeners": 2, "peers": 1}, timeout=PATIENCE).raise_for_status()
        said = httpx.post(f"{url}/gradio_api/run/speak", json={"data": ["Hello.", "", "default"]}, timeout=PATIENCE).json()
        assert Path(said["data"][0]["path"]).is_relative_to(next(tmp_path.glob("voxrtc-*"))), "no folder that servers share"
        family = family_of(process.pid)
        if how is signal.SIGTERM:
            drain(process, url)
        else:
            process.send_signal(how)
        code = process.wait(PATIENCE)
        eventually(lambda: not any(map(alive, family)))
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
            loading = httpx.get(f"{place}/readyz", timeout=PATIENCE)
            assert (loading.status_code, loading.json()["status"]) == (503, "not ready")
            assert httpx.get(place, timeout=PATIENCE).status_code == 200
            assert "of 0 MB" in progress, "the terminal tells how far it is"
            assert hub.gate
            hub.gate.set()
            assert address(process) == place
            assert httpx.get(f"{place}/readyz", timeout=PATIENCE).json()["models"] == ["tiny"]
            family = children(process.pid) if LINUX else set()
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
            eventually(lambda: not any(map(alive, family)))
            assert not list(tmp_path.glob("voxrtc-*"))


def test_a_taken_port_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with started(tmp_path, port=taken.getsockname()[1]) as process:
            output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "Try another port" in output and "Traceback" not in output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--model", "parrot"], "There is no model “parrot”"),
        (["--chat-local", "parrot"], "There is no model “parrot”"),
        (["--max-peers", "0"], "max_peers"),
        (["--media-processes", "3", "--max-peers", "2"], "a place each"),
        (["--max-waiting", "0"], "max_waiting"),  # every stream waits a moment: none would get in
        (["--turn", "cloudflare"], "VOXRTC_TURN_KEY"),
        (["--colour", "red"], "--colour"),
    ],
)
def test_wrong_settings_are_told_in_a_sentence(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: reading the program's modules anew would take longer than all else."""
    monkeypatch.setattr(sys, "argv", ["app.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "app.py"), run_name="__main__")
    assert ended.value.code, "Python prints it, or argparse has"
    assert told in f"{ended.value.code} {capsys.readouterr().err}"
