"""What processes are started with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import until
from voxrtc import supervisor as module
from voxrtc.cards import read_card
from voxrtc.processes import EngineProcesses, media_names, media_processes
from voxrtc.settings import ROOT, Settings
from voxrtc.supervisor import Child, Supervisor


class Nursery(Supervisor):
    """Starts nobody."""

    def start(self, child: Child) -> None:
        self.children[child.name] = child


@pytest.mark.parametrize(("cache", "set_by_hand", "given"), [(0.5, 0, "0.500000"), (0, 0, "0.0"), (0.5, 2, "2.0")])
def test_a_cache_is_bounded_unless_a_person_has_set_it(cache: float, set_by_hand: float, given: str) -> None:
    cards = {"lark": read_card(ROOT / "models", "lark")}
    nursery = Nursery()
    processes = EngineProcesses(nursery, Settings(kv_memory=set_by_hand), cards, {"lark": "ipc://nowhere"})
    processes.start("lark", lambda: False, cache)
    environment = nursery.children["lark engine"].environment
    assert (environment["VOXRTC_KV_MEMORY"], environment["VOXRTC_MODEL"]) == (given, "lark")


def test_media_processes_share_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(media_processes=3, max_peers=8, chat_local="none")
    addresses = {name: f"ipc://{name}" for name in media_names(settings)}
    children = media_processes(settings, addresses, {"lark": "ipc://lark"}, "ipc://hearing", "")
    assert [child.name for child in children] == list(addresses) == ["media", "media-2", "media-3"]
    for child, places in zip(children, (3, 3, 2), strict=True):
        words = child.arguments
        assert words[words.index("--name") + 1] == child.name and words[words.index("--listen") + 1] == addresses[child.name]
        for name, value in child.environment.items():
            monkeypatch.setenv(name, value)
        assert Settings().max_peers == places


def test_one_media_process_has_all_places() -> None:
    (child,) = media_processes(Settings(), {"media": "ipc://media"}, {"lark": "ipc://lark"}, "ipc://hearing", "ipc://chat")
    assert (child.name, child.environment["VOXRTC_MAX_PEERS"]) == ("media", "80")


# --- where none can be started: no memory is left, no file, no number for a process ---


@pytest.fixture
def mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """No process can be started until this is called."""
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.01)
    python, missing = Path(sys.executable), tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(missing))
    return lambda: monkeypatch.setattr(sys, "executable", str(python))


IDLE = ["-c", "import sys; sys.stdin.read()"]


@pytest.mark.anyio
async def test_a_child_that_cannot_be_started_is_tried_again(
    mend: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    child = Child("crowd", IDLE, {})
    async with Supervisor([child]) as supervisor:
        await until(lambda: child.restarts > 1)
        assert supervisor.runs("crowd") and "could not be started (No such file" in caplog.text
        mend()
        await until(lambda: child.process)
        assert supervisor.runs("crowd")
        await supervisor.stop("crowd")
        assert child.process and child.process.returncode is not None


@pytest.mark.anyio
async def test_a_model_whose_process_cannot_be_started_failed_and_may_be_loaded_again(mend: Callable[[], None]) -> None:
    cards = {"lark": read_card(ROOT / "models", "lark")}
    async with Supervisor() as supervisor:
        processes = EngineProcesses(supervisor, Settings(), cards, {"lark": "ipc://nowhere"})
        processes.start("lark", lambda: False, 0)
        await until(lambda: not processes.runs("lark"))
        assert "could not be started (No such file" in (processes.failure("lark") or "")
        await processes.stop("lark")
        assert processes.failure("lark") is None
        processes.start("lark", lambda: False, 0)
        assert processes.runs("lark")
