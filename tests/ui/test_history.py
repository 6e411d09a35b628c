"""The last hours as tables for Gradio's plots, and a page that asks for nothing while they are closed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import gradio as gr
import pytest

from tests.fake_engine import TONE_MODEL
from voxrtc.ui.history import tables
from voxrtc.ui.page import build_page

MINUTE = {
    "at": 60.0,
    "model": "tone",
    "ttfa_p50_ms": 130.0,
    "ttfa_p95_ms": 310.0,
    "turn_p50_ms": None,
    "turn_p95_ms": None,
    "first_sounds": 7,
    "streams": 1,
    "underruns": 2,
}


def test_each_figure_is_a_line_and_what_is_not_known_is_left_out() -> None:
    latency, streams, dry = tables([MINUTE, MINUTE | {"model": "other", "turn_p50_ms": 700.0, "turn_p95_ms": 900.0}])
    assert latency is not None and streams is not None and dry is not None
    assert latency.groupby("line")["ms"].max().to_dict() == {
        "tone: median": 130.0,
        "tone: 95th percentile": 310.0,
        "other: median": 130.0,
        "other: 95th percentile": 310.0,
        "other: spoken turn, median": 700.0,
        "other: spoken turn, 95th percentile": 900.0,
    }
    assert sorted(streams["count"]) == [1, 1, 7, 7]
    assert list(dry["count"]) == [2, 2]


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is nine hours ahead."""
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_a_browser_gets_the_moment_wherever_the_server_is() -> None:
    """It shows it by its own clock."""
    latency, *_ = tables([MINUTE])
    plot = gr.LinePlot(x="at", y="ms").postprocess(latency)
    assert plot is not None and plot.datatypes["at"] == "temporal"
    assert {row[plot.columns.index("at")] for row in plot.data} == {60_000}


def test_of_nothing_there_is_nothing_to_draw() -> None:
    """An empty table has Gradio's plot draw beyond all bounds."""
    assert tables([]) == [None, None, None]
    latency, *others = tables([MINUTE | {"ttfa_p50_ms": None, "ttfa_p95_ms": None}])
    assert latency is None and all(table is not None for table in others)


def test_it_is_closed_and_its_timer_stands() -> None:
    blocks = build_page([TONE_MODEL], lambda: [MINUTE]).blocks.values()
    (accordion,) = (block for block in blocks if isinstance(block, gr.Accordion))
    (timer,) = (block for block in blocks if isinstance(block, gr.Timer))
    assert not accordion.open and not timer.active
    assert all(block.value is None for block in blocks if isinstance(block, gr.LinePlot))
