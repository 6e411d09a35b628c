"""What is known of a machine: a made-up one's files, and this one's own core."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from voxrtc import machine
from voxrtc.machine import GB, Machine, free_memory, look, measure, resident, total_memory


def system(root: Path, **files: str) -> Path:
    """A folder with files as a Linux has them; `__` stands for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:  9000000 kB\nMemFree:  1 kB\nMemAvailable:   7000000 kB\n"


def test_memory_is_what_the_system_says(tmp_path: Path) -> None:
    root = system(tmp_path, proc__meminfo=MEMINFO)
    assert (free_memory(root), total_memory(root)) == (7_000_000 * 1024, 9_000_000 * 1024)
    assert free_memory(tmp_path / "another system") > GB / 10


def test_a_container_has_no_more_than_its_share(tmp_path: Path) -> None:
    root = system(tmp_path, proc__meminfo=MEMINFO)
    group = root / "sys/fs/cgroup"
    group.mkdir(parents=True)
    for name, text in {"max": "max", "current": "300", "stat": "anon 1\ninactive_file 100\n"}.items():
        (group / f"memory.{name}").write_text(text)
    assert free_memory(root) == 7_000_000 * 1024, "no limit is set"
    (group / "memory.max").write_text("1000\n")
    assert (free_memory(root), total_memory(root)) == (800, 1000)
    (group / "memory.current").write_text("2000\n")
    assert free_memory(root) == 0
    (group / "memory.max").unlink()
    (group / "memory").mkdir()  # version 1
    for name, text in {"limit_in_bytes": "5000", "usage_in_bytes": "1000", "stat": "inactive_file 0\n"}.items():
        (group / "memory" / f"memory.{name}").write_text(text)
    assert (free_memory(root), total_memory(root)) == (4000, 5000)


def test_this_machine_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    here = look("cpu", "auto")
    assert 0 < here.free <= here.memory and here.cores >= 1 and not here.gpu and here.numbers == 4
    assert look("cpu", "bfloat16").numbers == 2
    assert 0.01 < resident() < 100
    monkeypatch.setenv("PATH", "")  # no driver answers
    assert not look("cuda:0", "auto").gpu


def test_a_gpu_is_asked_of_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = tmp_path / "nvidia-smi"
    driver.write_text('#!/bin/sh\necho "$1" >&2\necho "NVIDIA X, small, 81559, 80000"\n')
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    there = look("cuda:1", "auto")
    assert (there.gpu, there.numbers) == ("NVIDIA X, small", 2)
    assert there.memory == pytest.approx(85.5, abs=0.1) and there.free == pytest.approx(83.9, abs=0.1)
    assert look("cuda", "float32").numbers == 4
    monkeypatch.setattr(machine, "GPU", tmp_path)
    assert look("auto", "auto").gpu


@pytest.mark.anyio
async def test_a_core_is_measured_in_a_process_of_its_own() -> None:
    speed = await measure()
    assert speed and 0.1 < speed.reads < 1000 and 0.1 < speed.computes < 10_000


@pytest.mark.anyio
async def test_where_no_process_can_be_started_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert await measure() is None


def test_a_machine_in_words() -> None:
    assert Machine(memory=15.6, free=9, cores=2).words == "2 cores, 16 GB of memory, no GPU"
    assert Machine(memory=79.6, free=9, cores=1, gpu="H100").words == "H100 with 80 GB"
