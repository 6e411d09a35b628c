"""Ours beside another's: runs of both kinds in turn, and a table of what they measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

KINDS = ("voxrtc", "aiortc")

Result = TypeVar("Result")


def in_turn(run: Callable[[str], Result], runs: int, kinds: Sequence[str] = KINDS) -> dict[str, list[Result]]:
    """So many runs of each kind, alternating, so that what else the machine does meets both alike."""
    results: dict[str, list[Result]] = {kind: [] for kind in kinds}
    for _ in range(runs):
        for kind in kinds:
            results[kind].append(run(kind))
    return results


def table(results: Mapping[str, list[Result]], figures: Mapping[str, Callable[[Result], float]]) -> str:
    """Medians of the figures by their labels, their spread over the runs, and the first kind as a share of the second."""
    ours, other = results
    lines = [f"{'':30}{ours:>24}{other:>24}{'ratio':>8}"]
    for label, figure in figures.items():
        values = {kind: [figure(result) for result in results[kind]] for kind in (ours, other)}
        medians = {kind: statistics.median(values[kind]) for kind in values}
        cells = [f"{medians[kind]:.2f} ({min(values[kind]):.2f}-{max(values[kind]):.2f})" for kind in values]
        lines.append(f"{label:30}{cells[0]:>24}{cells[1]:>24}{medians[ours] / medians[other]:>8.2f}")
    return "\n".join(lines)
