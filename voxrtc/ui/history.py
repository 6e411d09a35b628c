"""The last hours as Gradio's own plots, below the page: nothing happens in it while it is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import gradio as gr
import pandas as pd

from voxrtc.ui.markup import words

REFRESH = 30.0  # seconds; a new minute comes no sooner than after two of them

Minutes = Callable[[], Sequence[dict[str, Any]]]  # rows with the fields of `api.history.Minute`


def build_history(minutes: Minutes) -> None:
    """Put it at the end of the present `gr.Blocks`."""
    said = words()["history"]
    with gr.Accordion(said["title"], open=False, elem_classes="vx-history") as accordion:
        plots = [_plot(said["latency"], "ms"), *_row(said)]
        again = gr.Button(said["again"], size="sm")
    timer = gr.Timer(REFRESH, active=False)

    def draw() -> list[pd.DataFrame | None]:
        return tables(minutes())

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    accordion.expand(lambda: [gr.Timer(active=True), *draw()], outputs=[timer, *plots], **quiet)
    accordion.collapse(lambda: gr.Timer(active=False), outputs=timer, **quiet)
    timer.tick(draw, outputs=plots, **quiet)
    again.click(draw, outputs=plots, **quiet)


def _row(said: dict[str, str]) -> list[gr.LinePlot]:
    with gr.Row():
        return [_plot(said["streams"], "count"), _plot(said["dry"], "count")]


def _plot(title: str, value: str) -> gr.LinePlot:
    return gr.LinePlot(x="at", y=value, color="line", title=title, x_title="", y_title=value, color_title="", height=240)


def tables(minutes: Sequence[dict[str, Any]]) -> list[pd.DataFrame | None]:
    """Of first sounds, streams and underruns: a row for each point of each line, None where there is none, which Gradio cannot
    draw. Times name their zone, so that a browser shows them in its own."""
    said = words()["history"]
    first = {"ttfa_p50_ms": said["p50"], "ttfa_p95_ms": said["p95"]}
    turn = {"turn_p50_ms": said["turn"], "turn_p95_ms": said["late_turn"]}
    return [
        _table(minutes, first | turn, "ms"),
        _table(minutes, {"first_sounds": said["began"], "streams": said["there"]}, "count"),
        _table(minutes, {"underruns": said["times"]}, "count"),
    ]


def _table(minutes: Sequence[dict[str, Any]], fields: dict[str, str], value: str) -> pd.DataFrame | None:
    points = [
        {"at": datetime.fromtimestamp(minute["at"], UTC), value: minute[field], "line": f"{minute['model']}: {name}"}
        for minute in minutes
        for field, name in fields.items()
        if minute[field] is not None
    ]
    return pd.DataFrame(points) if points else None
