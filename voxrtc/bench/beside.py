"""Ours beside stock aiortc: runs of both kinds in turn, and a table of what they measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import TypeVar

KINDS = ("voxrtc", "aiortc")

Result = TypeVar("Result")


def in_turn(run: Callable[[str], Result], runs: int) -> dict[str, list[Result]]:
    """So many runs of each kind, alternating, so that what else the machine does meets both alike."""
    results: dict[str, list[Result]] = {kind: [] for kind in KINDS}
    for _ in range(runs):
        for kind in KINDS:
            results[kind].append(run(kind))
    return results


def table(results: Mapping[str, list[Result]], figures: Mapping[str, Callable[[Result], float]]) -> str:
    """Medians of the figures by their labels, their spread over the runs, and ours as a share of stock."""
    lines = [f"{'':30}{'voxrtc':>24}{'stock aiortc':>24}{'ratio':>8}"]
    for label, figure in figures.items():
        values = {kind: [figure(result) for result in results[kind]] for kind in KINDS}
        medians = {kind: statistics.median(values[kind]) for kind in KINDS}
        cells = [f"{medians[kind]:.2f} ({min(values[kind]):.2f}-{max(values[kind]):.2f})" for kind in KINDS]
        lines.append(f"{label:30}{cells[0]:>24}{cells[1]:>24}{medians['voxrtc'] / medians['aiortc']:>8.2f}")
    return "\n".join(lines)
