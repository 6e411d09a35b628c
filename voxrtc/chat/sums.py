"""What several media processes say of themselves, as if they were one."""

from __future__ import annotations

from collections.abc import Iterable

from voxrtc.messages.calls import Spoke
from voxrtc.messages.media import MediaStats
from voxrtc.recent import Histogram, Latency
from voxrtc.stalls import Stood


def added(each: Iterable[MediaStats]) -> MediaStats:
    """Peers, sums and latencies of all, of one at least."""
    everyone = list(each)
    models = dict.fromkeys(model for stats in everyone for model in stats.models)
    return MediaStats(
        call=everyone[0].call,
        peers=sum(stats.peers for stats in everyone),
        calls=sum(stats.calls for stats in everyone),
        underruns=sum(stats.underruns for stats in everyone),
        tasks=sum(stats.tasks for stats in everyone),
        models={model: _spoke([stats.models[model] for stats in everyone if model in stats.models]) for model in models},
        playing=[stream for stats in everyone for stream in stats.playing],
        networks=[network for stats in everyone for network in stats.networks],
        talking=sorted({model for stats in everyone for model in stats.talking}),
        kept=sum(stats.kept for stats in everyone),
        stood=Stood(sum(stats.stood.times for stats in everyone), sum(stats.stood.seconds for stats in everyone)),
    )


def _spoke(each: list[Spoke]) -> Spoke:
    return Spoke(
        responses=sum(spoke.responses for spoke in each),
        underruns=sum(spoke.underruns for spoke in each),
        ttfa=sum((spoke.ttfa for spoke in each), Latency()),
        turn=sum((spoke.turn for spoke in each), Latency()),
        first_sounds=sum((spoke.first_sounds for spoke in each), Histogram()),
        answers=sum((spoke.answers for spoke in each), Histogram()),
    )
