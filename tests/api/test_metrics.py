"""`/metrics` as Prometheus scrapes it, and the dashboard that asks for it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as some
from prometheus_client.parser import text_string_to_metric_families

from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from voxrtc.api.metrics import Sources, router
from voxrtc.api.sums import Sums, buckets, flat
from voxrtc.chat.media_client import CallRefused
from voxrtc.crowd.crowd import Crowd
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.calls import Network, Spoke
from voxrtc.messages.engine import GetStats, StepStats, StreamStats
from voxrtc.messages.media import MediaStats
from voxrtc.messages.model import Progress
from voxrtc.recent import STEPS, WAITS, Durations, Histogram, Latency
from voxrtc.stalls import Stood

pytestmark = pytest.mark.anyio
SECRET = "resp_0123456789abcdef0123"


def times(*seconds: float, bounds: tuple[float, ...] = WAITS) -> Histogram:
    durations = Durations(bounds)
    for each in seconds:
        durations.observe(each)
    return durations.histogram


# All that a media process tells
MEDIA = MediaStats(
    call="one",
    peers=2,
    calls=5,
    underruns=2,
    tasks=9,
    models={
        "tone": Spoke(
            responses=3,
            underruns=2,
            ttfa=Latency(3, 100.0, 300.0),
            turn=Latency(1, 700.0, 700.0),
            first_sounds=times(0.3),
            answers=times(0.8, 0.9),
        )
    },
    playing=[SECRET],
    networks=[Network(rtt_ms=20.0, loss=0.0, jitter_ms=3.0, concealed=0.01), Network(rtt_ms=40.0, loss=0.1)],
    talking=["tone"],
    kept=1,
    stood=Stood(3, 1.5),
)


@pytest.fixture
def busy(tone: ToneTransport, monkeypatch: pytest.MonkeyPatch) -> ToneTransport:
    """The tone's engine, with something to tell. Its counters are `counts`."""
    tone.counts = {
        "steps": 100,
        "recorded": 93,
        "codec_passes": 40,
        "codec_recorded": 30,
        "frames": 900,
        "finished": 7,
        "first_sounds": times(0.07, 0.12, 20.0),
    }  # type: ignore[attr-defined]
    streams = [
        StreamStats(stream=SECRET, state="playing", frames=9, slack=slack, background=slack is None)
        for slack in (0.2, 1.5, 3.0, None)
    ]
    send, answer = tone.send, tone.on_reply if hasattr(tone, "on_reply") else None
    assert answer is None, "before it is connected"

    def asked(request: Any) -> None:
        if isinstance(request, GetStats):
            known, tone.on_reply = (
                tone.on_reply,
                lambda reply: known(
                    msgspec.structs.replace(
                        reply,
                        streams=streams,
                        waiting=1,
                        kv_pages=64,
                        kv_pages_used=9,
                        lately=StepStats(count=10, streams=2.5, ms=9.0, gap_ms=0.25),
                        step_times=times(0.003, 0.004, bounds=STEPS),
                        **tone.counts,  # type: ignore[attr-defined]
                    )
                ),
            )
            send(request)
            tone.on_reply = known
        else:
            send(request)

    monkeypatch.setattr(tone, "send", asked)
    return tone


@pytest.fixture
def talking(media: EchoMedia) -> EchoMedia:
    media.counted["media"] = MEDIA
    return media


@pytest.fixture
async def scraped(busy: ToneTransport, talking: EchoMedia) -> Any:
    engines = tones(busy)
    sources = Sources(
        engines,
        talking,  # type: ignore[arg-type]
        Crowd(engines, 8),
        states=lambda: {"tone": Progress(state="ready")},
        held=lambda: {"tone": 1.5},
        restarts=lambda: {"media": 2},
        waiting=lambda: 4,
        stood=lambda: Stood(1, 0.2),
    )
    app = FastAPI()
    app.include_router(router(sources))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://voxrtc") as client:
        yield client


async def scrape(client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """Every sample, by its name and its labels' values."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, *_values(sample.labels)): sample.value for sample in samples}


def _values(labels: dict[str, str]) -> list[str]:
    """By their names, `le` last."""
    return [value for _, value in sorted(labels.items(), key=lambda label: (label[0] == "le", label))]


async def test_what_engines_and_calls_count_is_scraped(scraped: httpx.AsyncClient) -> None:
    seen = await scrape(scraped)
    expected = {
        ("voxrtc_steps_total", "tone"): 100,
        ("voxrtc_steps_recorded_total", "tone"): 93,
        ("voxrtc_codec_passes_total", "tone"): 40,
        ("voxrtc_codec_passes_recorded_total", "tone"): 30,
        ("voxrtc_step_gap_seconds", "tone"): 0.00025,
        ("voxrtc_streams_total", "tone", "finished"): 7,
        ("voxrtc_ttfa_seconds_bucket", "tone", "0.05"): 0,
        ("voxrtc_ttfa_seconds_bucket", "tone", "0.1"): 1,
        ("voxrtc_ttfa_seconds_bucket", "tone", "10.0"): 2,
        ("voxrtc_ttfa_seconds_bucket", "tone", "+Inf"): 3,
        ("voxrtc_ttfa_seconds_count", "tone"): 3,
        ("voxrtc_step_seconds_count", "tone"): 2,
        ("voxrtc_slack_min_seconds", "tone"): 0.2,
        ("voxrtc_slack_median_seconds", "tone"): 1.5,
        ("voxrtc_streams_active", "tone"): 4,
        ("voxrtc_streams_waiting", "tone"): 1,
        ("voxrtc_streams_background", "tone"): 1,
        ("voxrtc_batch_streams", "tone"): 2.5,
        ("voxrtc_kv_pages_used", "tone"): 9,
        ("voxrtc_underruns_total", "tone"): 2,
        ("voxrtc_turn_seconds_count", "tone"): 2,
        ("voxrtc_calls_total",): 5,
        ("voxrtc_peers",): 2,
        ("voxrtc_process_peers", "media"): 2,
        ("voxrtc_sessions_kept",): 1,
        ("voxrtc_caution_ratio", "tone"): 1,
        ("voxrtc_media_up",): 1,
        ("voxrtc_model_state", "tone", "ready"): 1,
        ("voxrtc_model_state", "tone", "failed"): 0,
        ("voxrtc_process_restarts_total", "media"): 2,
        ("voxrtc_loop_stalls_total", "media"): 3,
        ("voxrtc_loop_stalled_seconds_total", "media"): 1.5,
        ("voxrtc_loop_stalled_seconds_total", "web"): 0.2,
        ("voxrtc_crowd_listeners",): 0,
        ("voxrtc_callers_waiting",): 4,
        ("voxrtc_model_memory_bytes", "tone"): 1.5e9,
    }
    assert {key: seen.get(key) for key in expected} == expected
    assert seen["voxrtc_web_tasks",] >= 1
    assert seen["voxrtc_ttfa_seconds_sum", "tone"] == pytest.approx(20.19)
    assert seen["voxrtc_network_round_trip_seconds",] == pytest.approx(0.03)
    assert seen["voxrtc_network_loss_ratio",] == pytest.approx(0.05)


async def test_names_and_labels_are_as_they_should_be(scraped: httpx.AsyncClient) -> None:
    text = (await scraped.get("/metrics")).text
    assert SECRET not in text
    for family in text_string_to_metric_families(text):
        assert re.fullmatch(r"voxrtc(_[a-z]+)+", family.name), family.name
        assert family.documentation.endswith("."), family.name
        assert not family.name.endswith(("_ms", "_count", "_total")), family.name
        for sample in family.samples:
            assert set(sample.labels) <= {"model", "outcome", "state", "process", "le"}, sample


async def test_counts_go_on_when_an_engine_begins_anew(scraped: httpx.AsyncClient, busy: ToneTransport) -> None:
    before = await scrape(scraped)
    busy.counts |= {"steps": 10, "frames": 1000, "finished": 1, "first_sounds": times(0.07)}  # type: ignore[attr-defined]
    after = await scrape(scraped)
    assert after["voxrtc_steps_total", "tone"] == 110
    assert after["voxrtc_frames_total", "tone"] == 1900, "it is another engine, though this is more than before"
    assert after["voxrtc_ttfa_seconds_bucket", "tone", "0.1"] == 2 and after["voxrtc_ttfa_seconds_count", "tone"] == 4
    assert all(after[key] >= value for key, value in before.items() if key[0].endswith(("_total", "_bucket", "_sum", "_count")))


async def test_of_two_media_processes_each_counts_for_itself(scraped: httpx.AsyncClient, talking: EchoMedia) -> None:
    """One begins anew and one falls silent, and nothing is counted twice or lost."""
    talking.counted["media-2"] = msgspec.structs.replace(talking.counted["media"], peers=3, calls=7)
    seen = await scrape(scraped)
    assert (seen["voxrtc_media_up",], seen["voxrtc_peers",], seen["voxrtc_calls_total",]) == (2, 5, 12)
    assert (seen["voxrtc_process_peers", "media"], seen["voxrtc_process_peers", "media-2"]) == (2, 3)
    assert (seen["voxrtc_underruns_total", "tone"], seen["voxrtc_turn_seconds_count", "tone"]) == (4, 4)
    assert seen["voxrtc_sessions_kept",] == 2
    talking.counted["media-2"] = msgspec.structs.replace(talking.counted["media-2"], calls=1, models={})
    del talking.counted["media"]
    after = await scrape(scraped)
    assert (after["voxrtc_media_up",], after["voxrtc_peers",], after["voxrtc_calls_total",]) == (1, 3, 13)
    assert (after["voxrtc_underruns_total", "tone"], after["voxrtc_turn_seconds_count", "tone"]) == (4, 4)


async def test_who_is_gone_is_told_and_stops_no_scrape(
    scraped: httpx.AsyncClient, busy: ToneTransport, talking: EchoMedia
) -> None:
    before = await scrape(scraped)
    busy.lose()
    talking.refusal = CallRefused(503, "media_lost", "It is gone.")
    after = await scrape(scraped)
    assert after["voxrtc_media_up",] == 0
    assert after["voxrtc_steps_total", "tone"] == before["voxrtc_steps_total", "tone"]
    assert ("voxrtc_kv_pages", "tone") not in after and ("voxrtc_peers",) not in after


async def test_who_is_slow_to_tell_keeps_nobody_else_from_it(
    scraped: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines and media processes are waited for at once: here each tells only when both are asked."""
    both = asyncio.Barrier(2)

    def slow(stats: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        async def asked(self: Any) -> Any:
            await both.wait()
            return await stats(self)

        return asked

    for kind in (Fleet, EchoMedia):
        monkeypatch.setattr(kind, "stats", slow(kind.stats))
    seen = await asyncio.wait_for(scrape(scraped), 10)
    assert (seen["voxrtc_steps_total", "tone"], seen["voxrtc_media_up",]) == (100, 1)


@given(some.lists(some.tuples(some.sampled_from("ab"), some.booleans(), some.integers(0, 50)), min_size=1))
def test_sums_never_fall_and_lose_nothing_that_was_seen(steps: list[tuple[str, bool, int]]) -> None:
    """Between two looks one of two processes makes so many frames; or it dies, and another has made so many since."""
    sums, made, expected = Sums(), {"a": (2, 0), "b": (2, 0)}, 0
    for process, died, more in steps:
        age, frames = made[process]
        age, frames = made[process] = (1, more) if died and age > 1 else (age + 1, frames + more)
        sums.note("engine", {"age": age, "frames": frames}, process)
        expected += more
        ((_, counted),) = list(sums)
        assert counted["frames"] == expected


def test_a_histogram_comes_back_as_it_went() -> None:
    found, total = buckets("wait", flat("wait", times(0.05, 0.06, 99.0, bounds=(0.05, 0.1))))
    assert (found, total) == ([("0.05", 1), ("0.1", 2), ("+Inf", 3)], pytest.approx(99.11))


# --- the dashboard ---

DASHBOARD = json.loads((Path(__file__).parents[2] / "docs" / "grafana.json").read_text())


def queries(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from [node["expr"]] if isinstance(node.get("expr"), str) else []
        yield from [node["query"]] if isinstance(node.get("query"), str) and "voxrtc_" in node["query"] else []
        for each in node.values():
            yield from queries(each)
    elif isinstance(node, list):
        for each in node:
            yield from queries(each)


async def test_every_query_of_the_dashboard_names_what_is_there(scraped: httpx.AsyncClient) -> None:
    there = {key[0] for key in await scrape(scraped)}
    asked = {name for query in queries(DASHBOARD) for name in re.findall(r"voxrtc_\w+", query)}
    assert len(asked) > 15
    assert asked <= there
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert all(panel["targets"] and panel["title"] for panel in panels)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
