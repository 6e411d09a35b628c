"""Listeners before background streams, whatever the policy: nobody waits or runs dry for the sake of one that nobody hears.

Pure, like the policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from voxrtc.engine.scheduler import Machine, Policy, StepPlan, StreamView

WAY = 0.1  # seconds from the detokenizer to the listener, and what the machine may be late by
MARGIN = 1.5  # by how much steps and calls may take longer than costs say


def listeners_first(policy: Policy, now: float, streams: Sequence[StreamView], machine: Machine) -> StepPlan:
    """What `policy` plans. While a listener lacks something, it plans as if there were no background streams; and as many of
    them as there are listeners who still find no place are dismissed, the latest to come first. When there is nothing to be
    done for listeners at the moment, it is done for all.
    """
    listeners = [stream for stream in streams if not stream.background]
    inside = [stream for stream in streams if stream.background and stream.admitted]
    enough = short(streams, machine)
    if not inside or not any(_lacks(stream, enough) for stream in listeners):
        return policy(now, streams, machine)
    plan = policy(now, listeners, replace(machine, slots=machine.slots - len(inside)))
    outside = {s.id for s in listeners if not s.admitted or s.evicted} - set(plan.admit) | set(plan.preempt)
    inside.sort(key=lambda stream: (stream.arrived, stream.id), reverse=True)
    plan = replace(plan, dismiss=tuple(stream.id for stream in inside[: len(outside)]), paused=True)
    return policy(now, streams, machine) if plan.idle else plan


def short(streams: Sequence[StreamView], machine: Machine) -> float:
    """Seconds of slack below which a listener is to be served alone: until its next sound is there, what runs for everyone has
    to end, and what runs for it alone. Not more, since steps for one cost nearly as much as those for all.
    """
    costs, count = machine.costs, sum(stream.admitted for stream in streams)
    everyone = costs.step_seconds(count) + costs.codec_seconds(count, count * machine.min_chunk)
    alone = machine.chunk * costs.step_seconds(1) + costs.codec_seconds(1, machine.chunk)
    return WAY + MARGIN * (everyone + alone)


def _lacks(stream: StreamView, enough: float) -> bool:
    """It is short of sound, and the engine can do something about that. Who waits for text waits for somebody else."""
    short = stream.slack is None or stream.slack < enough
    return short and not stream.starved and (not stream.admitted or bool(stream.pending) or not stream.complete)
