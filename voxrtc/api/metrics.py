"""`GET /metrics`: what engines, media processes and crowd count, in Prometheus' text format.

Nothing here is counted as it happens: processes are asked when somebody scrapes. Labels are names of models, processes and
states, never who or what is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from voxrtc.api import contract, stats
from voxrtc.api.sums import Sums, buckets, flat
from voxrtc.chat.sums import added
from voxrtc.chat.switchboard import Switchboard
from voxrtc.crowd.crowd import Crowd
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.calls import Network, Spoke
from voxrtc.messages.engine import Stats, StreamStats
from voxrtc.messages.media import MediaStats
from voxrtc.messages.model import Progress
from voxrtc.stalls import Stood

STATES = ("unloaded", "loading", "ready", "failed")

# Of engines and of responses in calls: what is counted, by the name of the metric
COUNTED = {
    "steps": ("voxrtc_steps", "Steps of the model."),
    "recorded": ("voxrtc_steps_recorded", "Steps that were repeated from CUDA graphs."),
    "codec_passes": ("voxrtc_codec_passes", "Passes of the detokenizer."),
    "codec_recorded": ("voxrtc_codec_passes_recorded", "Passes of the detokenizer that were repeated from CUDA graphs."),
    "frames": ("voxrtc_frames", "Frames of audio tokens sampled."),
    "chunks": ("voxrtc_chunks", "Chunks of sound handed over."),
    "preempted": ("voxrtc_preemptions", "Streams that gave their cache pages to others for a while."),
    "frames_after_cancel": ("voxrtc_frames_after_cancel", "Frames computed for streams that were cancelled already."),
    "paused": ("voxrtc_background_paused_seconds", "Busy time in which virtual listeners stood for a person's sake."),
    "responses": ("voxrtc_responses", "Responses in calls whose sound began."),
    "underruns": ("voxrtc_underruns", "Times that a response in a call ran dry amid its sound."),
}
TIMES = {
    "ttfa": ("voxrtc_ttfa_seconds", "From a stream's request to its first sound, in the engine."),
    "step": ("voxrtc_step_seconds", "Of a step of the model."),
    "response": ("voxrtc_response_ttfa_seconds", "From the request for a response in a call to its first sample sent."),
    "turn": ("voxrtc_turn_seconds", "From the end of a person's speech to the first sample of the answer."),
}
OUTCOMES = ("finished", "cancelled", "failed", "gave_way")

Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily)


@dataclass(frozen=True)
class Sources:
    """Who is asked. `states` and `held` (GB) are by model, `restarts` by process; `waiting` are callers that stand in line;
    `stood` is of this process' event loop."""

    engines: Fleet
    media: Switchboard
    crowd: Crowd
    states: Callable[[], Mapping[str, Progress]] = dict
    held: Callable[[], Mapping[str, float]] = dict
    restarts: Callable[[], Mapping[str, int]] = dict
    waiting: Callable[[], int] = lambda: 0
    stood: Callable[[], Stood] = Stood


def router(sources: Sources) -> APIRouter:
    """The route over the sources."""
    routes = APIRouter(tags=["health"])
    sums = Sums()

    @routes.get("/metrics", response_class=Response, responses=contract.sends({"text/plain": contract.TEXT}))
    async def metrics() -> Response:
        counted, media = await stats.count(sources.engines, sources.media)
        for model, engine in counted.items():
            sums.note(f"engine {model}", _engine_counts(engine))
        for name, process in media.items():
            sums.note("media", {"calls": process.calls}, name)
            for model, spoke in process.models.items():
                sums.note(f"calls {model}", _call_counts(spoke), name)
            sums.note(f"loop {name}", _stall_counts(process.stood))
        sums.note("loop web", _stall_counts(sources.stood()))
        registry = CollectorRegistry()
        registry.register(_Scrape([*_sums(sums), *_engines(counted), *_media(media), *_house(sources)]))
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return routes


class _Scrape:
    """What a registry wants to have collected."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _engine_counts(engine: Stats) -> dict[str, float]:
    counts: dict[str, float] = {
        "steps": engine.steps,
        "recorded": engine.recorded,
        "codec_passes": engine.codec_passes,
        "codec_recorded": engine.codec_recorded,
        "frames": engine.frames,
        "chunks": engine.chunks,
        "preempted": engine.preempted,
        "frames_after_cancel": engine.frames_after_cancel,
        "paused": engine.paused,
        "finished": engine.finished,
        "cancelled": engine.cancelled,
        "failed": engine.failed,
        "gave_way": engine.gave_way,
    }
    return counts | flat("ttfa", engine.first_sounds) | flat("step", engine.step_times)


def _call_counts(spoke: Spoke) -> dict[str, float]:
    counts: dict[str, float] = {"responses": spoke.responses, "underruns": spoke.underruns}
    return counts | flat("response", spoke.first_sounds) | flat("turn", spoke.answers)


def _stall_counts(stood: Stood) -> dict[str, float]:
    return {"stalls": stood.times, "stalled": stood.seconds}


def _sums(sums: Sums) -> Iterator[Metric]:
    counters = {name: CounterMetricFamily(metric, about, labels=["model"]) for name, (metric, about) in COUNTED.items()}
    times = {name: HistogramMetricFamily(metric, about, labels=["model"]) for name, (metric, about) in TIMES.items()}
    streams = CounterMetricFamily("voxrtc_streams", "Streams that are over.", labels=["model", "outcome"])
    calls = CounterMetricFamily("voxrtc_calls", "Lines of calls that were set up.")
    stalls = CounterMetricFamily("voxrtc_loop_stalls", "Times that an event loop stood for 0.1 s or more.", labels=["process"])
    stalled = CounterMetricFamily("voxrtc_loop_stalled_seconds", "How long it did.", labels=["process"])
    for what, counted in sums:
        model = what.partition(" ")[2]
        for name in counters.keys() & counted.keys():
            counters[name].add_metric([model], counted[name])
        for name, histogram in times.items():
            found, total = buckets(name, counted)
            if found:
                histogram.add_metric([model], found, total)
        for outcome in [each for each in OUTCOMES if each in counted]:
            streams.add_metric([model, outcome], counted[outcome])
        if "calls" in counted:
            calls.add_metric([], counted["calls"])
        if "stalls" in counted:
            stalls.add_metric([model], counted["stalls"])
            stalled.add_metric([model], counted["stalled"])
    yield from [*counters.values(), *times.values(), streams, calls, stalls, stalled]


def _engines(counted: Mapping[str, Stats]) -> Iterator[Metric]:
    def gauge(name: str, about: str, value: Callable[[Stats], float | None]) -> Metric:
        family = GaugeMetricFamily(f"voxrtc_{name}", about, labels=["model"])
        return _by_label(family, {model: value(engine) for model, engine in counted.items()})

    yield gauge("streams_active", "Streams that the engine works on, or that wait.", lambda each: len(each.streams))
    yield gauge("streams_waiting", "Of these, streams that wait for a place.", lambda each: each.waiting)
    yield gauge("streams_background", "Of these, virtual listeners.", lambda each: sum(s.background for s in each.streams))
    yield gauge("stream_slots", "Streams that the engine takes in at a time.", lambda each: each.slots)
    yield gauge("batch_streams", "Streams in a step, on average over the last second.", lambda each: each.lately.streams)
    yield gauge("step_gap_seconds", "In which the device had no step, between two.", lambda each: _seconds(each.lately.gap_ms))
    yield gauge("slack_min_seconds", "Sound in hand of the listener who has least.", lambda each: _slack(each.streams, 0.0))
    yield gauge("slack_median_seconds", "Sound in hand of the median listener.", lambda each: _slack(each.streams, 0.5))
    yield gauge("kv_pages", "Pages of the key-value cache.", lambda each: each.kv_pages)
    yield gauge("kv_pages_used", "Pages in use.", lambda each: each.kv_pages_used)
    yield gauge(
        "caution_ratio", "By how much more than costs say it is planned for, since sound came late.", lambda e: e.caution
    )
    yield gauge("engine_overhead_ratio", "Share of its busy time outside the model.", lambda each: each.overhead)
    yield gauge("engine_uptime_seconds", "Since the engine's start.", lambda each: each.uptime)


def _by_label(family: Family, values: Mapping[str, float | None]) -> Family:
    """What is known, by the value of its one label."""
    for label, value in values.items():
        if value is not None:
            family.add_metric([label], value)
    return family


def _slack(streams: list[StreamStats], share: float) -> float | None:
    """Of those that have begun to sound."""
    known = sorted(stream.slack for stream in streams if stream.slack is not None)
    return known[int(share * len(known))] if known else None


def _media(each: Mapping[str, MediaStats]) -> Iterator[Metric]:
    yield GaugeMetricFamily("voxrtc_media_up", "Media processes that answer.", value=len(each))
    if not each:
        return
    peers = GaugeMetricFamily("voxrtc_process_peers", "Of these, those of a media process.", labels=["process"])
    media = added(each.values())
    yield GaugeMetricFamily("voxrtc_peers", "Browsers and WebSockets that are connected.", value=media.peers)
    yield _by_label(peers, {name: process.peers for name, process in each.items()})
    yield GaugeMetricFamily("voxrtc_responses_playing", "Responses that are being played.", value=len(media.playing))
    yield GaugeMetricFamily("voxrtc_sessions_kept", "Whose line broke, and whose client may come back.", value=media.kept)
    yield GaugeMetricFamily("voxrtc_media_tasks", "Tasks of the media processes' event loops.", value=media.tasks)
    yield _mean(
        "network_round_trip_seconds", "Of the browsers that tell, on average.", media.networks, lambda n: _seconds(n.rtt_ms)
    )
    yield _mean(
        "network_jitter_seconds", "Of the browsers that tell, on average.", media.networks, lambda n: _seconds(n.jitter_ms)
    )
    yield _mean("network_loss_ratio", "Share of packets that browsers miss, on average.", media.networks, lambda n: n.loss)
    yield _mean("concealed_ratio", "Share of samples that browsers make up.", media.networks, lambda n: n.concealed)


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _mean(name: str, about: str, networks: list[Network], value: Callable[[Network], float | None]) -> Metric:
    known = [each for network in networks if (each := value(network)) is not None]
    return GaugeMetricFamily(f"voxrtc_{name}", about, value=sum(known) / len(known) if known else None)


def _house(sources: Sources) -> Iterator[Metric]:
    states = GaugeMetricFamily("voxrtc_model_state", "1 for the state that a model is in.", labels=["model", "state"])
    for model, progress in sources.states().items():
        for state in STATES:
            states.add_metric([model, state], float(progress.state == state))
    memory = GaugeMetricFamily("voxrtc_model_memory_bytes", "That a model's process holds.", labels=["model"])
    restarts = CounterMetricFamily("voxrtc_process_restarts", "Of processes that died.", labels=["process"])
    yield states
    yield _by_label(memory, {model: held * 1e9 for model, held in sources.held().items()})
    yield _by_label(restarts, sources.restarts())
    yield GaugeMetricFamily("voxrtc_web_tasks", "Tasks of the web process' event loop.", value=len(asyncio.all_tasks()))
    yield GaugeMetricFamily("voxrtc_crowd_listeners", "Virtual listeners.", value=sources.crowd.size)
    yield GaugeMetricFamily("voxrtc_crowd_peers", "Of these, with a WebRTC call.", value=sources.crowd.peers)
    yield GaugeMetricFamily("voxrtc_callers_waiting", "That stand in line on a public host.", value=sources.waiting())
