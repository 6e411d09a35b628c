"""A disk that is full: nothing ends for it but what cannot be without."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import SafetensorError

from tests.test_cards import CARD, write
from voxrtc import web
from voxrtc.cards import read_card
from voxrtc.engine import cpu_attention
from voxrtc.learned import Learned
from voxrtc.listening import listen
from voxrtc.llm import gguf
from voxrtc.messages.model import Progress
from voxrtc.settings import Settings
from voxrtc.speechlm.weights import WeightsError

FULL = Path("/dev/full")


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.anyio
@pytest.mark.skipif(not FULL.exists(), reason="there is no disk that is always full")
async def test_the_chat_model_starts_though_nobody_can_be_told_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ready:
        async def ready(self) -> None: ...
        async def settled(self, model: str) -> Progress:
            return Progress(state="ready")

    write(tmp_path, CARD)
    started: list[bool] = []
    stdout = FULL.open("w")
    with listen(Settings(port=0)) as listener, monkeypatch.context() as printing:
        printing.setattr("sys.stdout", stdout)
        card = read_card(tmp_path, "wren")
        await web._greet(Ready(), Ready(), card, listener, lambda: started.append(True))  # type: ignore[arg-type]
    with contextlib.suppress(OSError):  # what it holds cannot be written at its end either
        stdout.close()
    assert started


def test_no_place_for_sockets_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    with pytest.raises(OSError, match="set TMPDIR to another folder"):
        web._folder()


def test_a_speed_that_cannot_be_written_is_known_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = Learned("cpu", tmp_path / "cache" / "speeds.json")
    monkeypatch.setattr(Path, "replace", full)
    learned.note(tmp_path, 4.6)
    assert learned.speed(tmp_path) == 4.6
    assert not list((tmp_path / "cache").iterdir())


def test_what_is_compiled_is_used_though_it_cannot_be_kept() -> None:
    """numba's way: what it has compiled is there before it is kept (`tests/chaos` has the real one on a real disk)."""
    calls: list[int] = []

    def compiled(number: int) -> None:
        calls.append(number)
        if len(calls) == 1:
            full()

    function = cpu_attention._Kept(compiled)
    function(1)
    function(2)
    assert calls == [1, 1, 2]


@pytest.mark.parametrize(
    "wrong", [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("No space left on device")]
)
def test_a_chat_model_that_cannot_be_unpacked_says_how_much_it_takes(
    wrong: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise wrong

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(gguf, "convert", fail)
    read = SimpleNamespace(tensors=[SimpleNamespace(shape=np.array([1000, 100_000]))])
    monkeypatch.setattr(gguf, "_open", lambda file: read)
    (file := tmp_path / "chat.gguf").write_bytes(b"GGUF")
    with pytest.raises(WeightsError) as told:
        gguf.cached(file)
    assert re.search(r"takes 0\.20 GB.*No space left on device.*XDG_CACHE_HOME", str(told.value))
    assert not list((tmp_path / "voxrtc").iterdir())
