"""The machine that models run on, without torch: its memory, its cores, its GPU, and how fast a core is.

`python -m voxrtc.machine` measures a core and prints a `Speed` as JSON: in a process of its own, since numpy would take all
cores in this one.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

GPU = Path("/dev/nvidiactl")
GB = 10**9
ROUNDS = 8  # of which the fastest counts: others may be busy on this machine
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


class Speed(msgspec.Struct, frozen=True):
    """What one core does in a second: GB of a matrix times a vector, and GFLOP of a matrix times a matrix, in float32."""

    reads: float
    computes: float


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What models have here. Memory is in GB: the GPU's, where they run on one."""

    memory: float
    free: float
    cores: int
    gpu: str = ""  # its name; empty: models run on the processor
    numbers: int = 4  # bytes of a weight
    speed: Speed | None = None  # of a core, once it is known

    @property
    def words(self) -> str:
        """In words, for people."""
        cores = f"{self.cores} core{'s' if self.cores > 1 else ''}"
        if self.gpu:
            return f"{self.gpu} with {self.memory:.0f} GB"
        return f"{cores}, {self.memory:.0f} GB of memory, no GPU"


def look(device: str, dtype: str) -> Machine:
    """The machine as it is now, for the settings `device` and `dtype`. Asks the GPU's driver, which takes a moment."""
    gpu = _gpu(device) if device.startswith("cuda") or (device == "auto" and GPU.exists()) else None
    narrow = dtype == "bfloat16" or (dtype == "auto" and gpu is not None)
    name, memory, free = gpu or ("", total_memory() / GB, free_memory() / GB)
    return Machine(memory=memory, free=free, cores=_cores(), gpu=name, numbers=2 if narrow else 4)


def gpus(root: Path = Path("/")) -> int:
    """How many there are."""
    return len(list(root.glob("dev/nvidia[0-9]*")))


def free_memory(root: Path = Path("/")) -> int:
    """Bytes of the host's memory that may be taken without swapping; all there are, where the system does not say.

    In a container no more than its group of processes (cgroups, version 2 or 1) is left.
    """
    free = _meminfo(root, "MemAvailable:") or _physical()
    for limit, used, cached in _groups(root):
        free = min(free, limit - used + cached)
    return max(0, free)


def total_memory(root: Path = Path("/")) -> int:
    """Bytes of the host's memory, or of this container's share of it."""
    return min([_meminfo(root, "MemTotal:") or _physical(), *(limit for limit, _, _ in _groups(root))])


def resident() -> float:
    """GB of the host's memory that this process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / GB
    except OSError:
        return 0.0


async def measure() -> Speed | None:
    """A core's speed, in a fifth of a second of its time. None where it cannot be had."""
    command, environment = (sys.executable, "-m", __name__), {**os.environ, **ONE_THREAD}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:  # no memory is left, say, or no file
        return None
    try:
        told, _ = await process.communicate()
        return msgspec.json.decode(told, type=Speed)
    except msgspec.DecodeError:
        return None
    finally:
        if process.returncode is None:
            process.kill()


def _meminfo(root: Path, line: str) -> int:
    meminfo = root / "proc/meminfo"
    for entry in meminfo.read_text().splitlines() if meminfo.exists() else ():
        if entry.startswith(line):
            return int(entry.split()[1]) * 1024
    return 0


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _groups(root: Path) -> Iterator[tuple[int, int, int]]:
    """Limit, use, and what of the use are cached files, in bytes, of the group that a container sees as its own."""
    for folder, limit, used in (
        ("sys/fs/cgroup", "memory.max", "memory.current"),
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            place = root / folder
            bytes_ = [int((place / name).read_text()) for name in (limit, used)]
            told = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # there is none, or it says "max"
            continue
        yield bytes_[0], bytes_[1], int(told.get("inactive_file", 0))


def _cores() -> int:
    """Those that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return cores


def _gpu(device: str) -> tuple[str, float, float] | None:
    """Name, memory and free memory of the GPU that the setting means, as its driver tells."""
    number = device.partition(":")[2] or "0"
    query = ["nvidia-smi", f"--id={number}", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
        name, total, free = (part.strip() for part in told.splitlines()[0].rsplit(",", 2))
        return name, int(total) * 2**20 / GB, int(free) * 2**20 / GB
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _measure() -> Speed:
    """The matrix is larger than caches are, as a model's weights are."""
    import numpy as np

    matrix, vector = np.full((4096, 8192), 0.5, np.float32), np.ones(8192, np.float32)
    square = np.full((512, 512), 0.5, np.float32)
    return Speed(matrix.nbytes / _fastest(lambda: matrix @ vector) / GB, 2 * 512**3 / _fastest(lambda: square @ square) / GB)


def _fastest(work: Callable[[], object]) -> float:
    """Seconds."""

    def once() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return min(once() for _ in range(ROUNDS))


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_measure()))
