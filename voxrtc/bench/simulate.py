"""`python -m voxrtc.bench simulate`: the live policies on a virtual clock, with tables of costs for a machine.

The same functions as in the engine (`engine.scheduler`), the same snapshot, the same order of events: a policy is asked
when the model is free, and its detokenizer call runs beside the step. Only time is made up.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from voxrtc.bench.search import LATE, STALLED, TTFA_BUDGET, Search
from voxrtc.engine.caution import Caution
from voxrtc.engine.costs import Costs, LinearCost
from voxrtc.engine.scheduler import POLICIES, Machine, Policy, StreamView
from voxrtc.engine.snapshot import LONG_CHUNK
from voxrtc.recent import quantile


@dataclass(frozen=True)
class Table:
    """A model on a machine. Costs in seconds: `step` for 1, streams, prompt tokens; `codec` for 1, streams, frames."""

    source: str
    frame_rate: float
    lookahead: int
    min_chunk: int
    chunk: int
    step: tuple[float, float, float]
    codec: tuple[float, float, float]
    prompt: int = 60  # tokens
    slots: int = 64
    best_chunks: tuple[tuple[int, int], ...] = (
        (4, 8),
        (8, 8),
        (8, 16),
        (16, 16),
    )  # (first, chunk) tried for fixed-size policies

    def machine(self, busy: bool = False, first: int | None = None, chunk: int | None = None) -> Machine:
        """What a policy is shown."""
        return Machine(
            slots=self.slots, pages=1 << 30, frame_rate=self.frame_rate, min_chunk=self.min_chunk,
            first_chunk=first or self.chunk, chunk=chunk or self.chunk, long_chunk=LONG_CHUNK * (chunk or self.chunk),
            prefill_tokens=2048, max_ahead=20.0, detokenizer_busy=busy, costs=self.costs(),
        )  # fmt: skip

    def costs(self) -> Costs:
        """The table as the engine's learned costs."""
        return Costs(LinearCost(self.step), LinearCost(self.codec), LinearCost((0.0, 0.0)))


TABLES = {
    "lark": Table(
        "measured on a 2-core machine: eager step with packed weights on one, streamed detokenizer on the other",
        40, 15, 4, 8, (2.2e-3, 2.4e-4, 7e-5), (2.0e-3, 5e-5, 1.75e-4), slots=96,
    ),
    "orpheus-h100": Table(
        "6.6 GB of bf16 weights at about half of 3.35 TB/s; SNAC as one graph; VoxServe published 99x real time offline",
        82, 0, 14, 28, (6.5e-3, 9e-5, 1e-5), (4e-3, 5e-5, 2e-5), best_chunks=((28, 28), (14, 28), (28, 56), (56, 56)),
    ),
    "qwen3-tts-h100": Table(
        "VoxServe's published single-stream 40 ms; sglang-omni's 29.9 ms; depth model of 15 codebooks a frame dominates",
        12.5, 0, 1, 4, (9e-3, 1.2e-4, 1e-5), (1.07e-2, 1e-4, 1e-4), best_chunks=((1, 4), (4, 4), (4, 10), (2, 8)),
    ),
}  # fmt: skip


@dataclass
class _Stream:
    id: str
    arrived: float
    frames: int  # of the whole utterance
    admitted: bool = False
    prefill_left: int = 0
    made: int = 0
    pending: int = 0
    given: int = 0  # frames seen by the detokenizer
    sound: float = 0.0  # seconds delivered
    played: float = 0.0  # seconds played at `at`
    at: float = 0.0
    first: float | None = None
    stalls: list[float] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return self.made >= self.frames

    def play(self, now: float) -> None:
        """Let the listener hear until `now`; what it waits beyond its sound is a stall, closed by `deliver`."""
        if self.first is not None:
            self.played = min(self.sound, self.played + now - self.at)
        self.at = now

    def slack(self, now: float) -> float | None:
        return None if self.first is None else max(0.0, self.sound - (self.played + now - self.at))

    def deliver(self, now: float, seconds: float) -> None:
        if self.first is None:
            self.first, self.at = now, now
        else:
            dry = now - self.at - (self.sound - self.played)
            if dry > 1e-9:
                self.stalls.append(dry)
            self.play(now)
        self.sound += seconds

    def view(self, now: float, lookahead: int) -> StreamView:
        ripe = max(0, self.made - lookahead) - max(0, self.made - self.pending - lookahead)
        return StreamView(
            self.id, self.arrived, self.admitted, 0, self.prefill_left, self.complete, self.pending, self.slack(now),
            ripe=ripe, ahead=self.slack(now) or 0.0,
        )  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What happened to the streams of a run."""

    ttfa: list[float]
    viable: float  # share of streams
    stalls: list[float]
    done: int
    unserved: int

    def quantile(self, q: float) -> float:
        """Of the time to first audio, seconds."""
        return quantile(self.ttfa, q)

    @property
    def good(self) -> bool:
        """Meets the goodput's terms."""
        return self.unserved == 0 and self.quantile(1 - LATE) <= TTFA_BUDGET and self.viable >= 1 - STALLED


class Simulation:
    """One policy over one list of arrivals (seconds, frames)."""

    def __init__(
        self,
        table: Table,
        policy: Policy,
        arrivals: Iterable[tuple[float, int]],
        first: int = 0,
        chunk: int = 0,
        slower: Callable[[float], float] = lambda now: 1.0,
    ) -> None:
        """`slower`: by how much more than in the table something costs that begins now, since others use the machine."""
        self._table, self._policy, self._slower = table, policy, slower
        self._idle_machine, self._busy_machine = (table.machine(busy, first or None, chunk or None) for busy in (False, True))
        self._costs, self._caution, self._reserve = table.costs(), Caution(), 0.0
        self._arrivals = deque(sorted(arrivals))
        self._live: dict[str, _Stream] = {}
        self._over: list[_Stream] = []
        self._codec: tuple[float, list[tuple[_Stream, int]]] | None = None
        self._now = 0.0

    @property
    def live(self) -> int:
        """Streams that are here, or are to come."""
        return len(self._live) + len(self._arrivals)

    def submit(self, at: float, frames: int) -> None:
        """One more arrival, later than all before."""
        self._arrivals.append((at, frames))

    def run(self, horizon: float = math.inf) -> Outcome:
        """Until every stream is over, or past `horizon` with some unserved."""
        self.advance(horizon)
        done = self._over
        return Outcome(
            [s.first - s.arrived for s in done if s.first is not None],
            sum(not s.stalls for s in done) / max(1, len(done)),
            [x for s in done for x in s.stalls],
            len(done),
            self.live,
        )

    def advance(self, until: float) -> None:
        """As `run`, and stop at the first event after `until`."""
        while self.live and self._now < until:
            self._arrive()
            self._finish_codec()
            views = [stream.view(self._now, self._table.lookahead) for stream in self._live.values()]
            machine = self._busy_machine if self._codec else self._idle_machine
            plan = self._policy(self._now, views, replace(machine, caution=self._caution.at(self._now)))
            for name in plan.admit:
                self._live[name].admitted, self._live[name].prefill_left = True, self._table.prompt
            if plan.detokenize:
                self._reserve = plan.reserve
                self._start_codec([(self._live[name], count) for name, count in plan.detokenize])
            parts = [*plan.prefill, *((name, 0) for name in plan.decode)]
            if parts:
                self._step(parts)
            elif not plan.admit:
                self._sleep()

    def _arrive(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self._now:
            at, frames = self._arrivals.popleft()
            name = str(len(self._live) + len(self._over))
            self._live[name] = _Stream(name, at, frames)

    def _step(self, parts: list[tuple[str, int]]) -> None:
        self._now += self._slower(self._now) * self._costs.step_seconds(len(parts), sum(count for _, count in parts))
        for name, count in parts:
            stream = self._live[name]
            stream.prefill_left -= count
            if not stream.prefill_left:
                stream.made += 1
                stream.pending += 1

    def _start_codec(self, parts: list[tuple[_Stream, int]]) -> None:
        seconds = self._slower(self._now) * self._costs.codec_seconds(len(parts), sum(count for _, count in parts))
        for stream, count in parts:
            stream.pending -= count
        self._codec = (self._now + seconds, parts)

    def _finish_codec(self) -> None:
        if self._codec and self._codec[0] <= self._now:
            (at, parts), self._codec = self._codec, None
            for stream, count in parts:
                held = 0 if stream.complete and not stream.pending else self._table.lookahead
                before = max(0, stream.given - self._table.lookahead)
                stream.given += count
                if fresh := max(0, stream.given - held) - before:
                    if (slack := stream.slack(at)) is not None:
                        self._caution.handed_over(self._now, slack, self._reserve)
                    stream.deliver(at, fresh / self._table.frame_rate)
                if stream.given == stream.frames:
                    self._over.append(self._live.pop(stream.id))

    def _sleep(self) -> None:
        """To the next event; a stream that rests wakes by itself, so look again soon while any is alive."""
        events = [self._codec[0]] if self._codec else []
        events += [self._arrivals[0][0]] if self._arrivals else []
        events += [self._now + 0.02] if self._live else []
        if not events:
            return
        self._now = max(self._now + 1e-6, min(events))


def arrivals(rate: float, seconds: float, table: Table, seed: int, bursts: bool = False) -> list[tuple[float, int]]:
    """Poisson arrivals (in bursts of five, if wanted) of utterances: half of them 1-4 s, half 1-15 s."""
    rng, now = random.Random(seed), 0.0
    made: list[tuple[float, int]] = []
    while True:
        now += rng.expovariate(rate / (5 if bursts else 1))
        if now >= seconds:
            return made
        for _ in range(5 if bursts else 1):
            length = rng.uniform(1, 15) if rng.random() < 0.5 else rng.uniform(1, 4)
            made.append((now + 1e-6 * len(made), max(1, int(length * table.frame_rate))))


def goodput(run: Callable[[float], Outcome]) -> float:
    """The highest rate (streams a second) that meets the terms."""
    search = Search(rate=4.0, precision=1.01, step=2.0)
    while not search.done:
        search.tell(run(search.rate).good)
    return search.good


def best(table: Table, policy: str, seconds: float, seed: int, bursts: bool) -> tuple[float, tuple[int, int]]:
    """Goodput of a policy, at its best (first, chunk) if those are fixed."""
    sizes = ((0, 0),) if policy == "playout" else table.best_chunks

    def at(first: int, chunk: int) -> float:
        def run(rate: float) -> Outcome:
            come = arrivals(rate, seconds, table, seed, bursts)
            return Simulation(table, POLICIES[policy], come, first, chunk).run(1.5 * seconds + 10)

        return goodput(run)

    return max((at(*size), size) for size in sizes)


def limit(table: Table) -> float:
    """Streams a second that no policy can exceed: the model has the fullest batch at all times in which each of its streams
    still gets frames as fast as they are played, and the detokenizer, for the same streams, calls of a second of sound.
    """
    costs, mean = table.costs(), (2.5 + 8.0) / 2 * table.frame_rate  # frames of a stream: see `arrivals`
    share = table.prompt / mean
    fitting = (n for n in range(table.slots, 0, -1) if costs.step_seconds(n, share * n) <= 1 / table.frame_rate)
    streams = next(fitting, 1)
    model = streams / costs.step_seconds(streams, share * streams)
    second = round(table.frame_rate)
    codec = streams * second / costs.codec_seconds(streams, streams * second)
    return min(model, codec) / mean


def main(arguments: list[str]) -> None:
    """A table of goodput by policy; `--json` for programs."""
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench simulate", description=__doc__)
    parser.add_argument("--table", choices=TABLES, action="append", help="all by default")
    parser.add_argument("--seconds", type=float, default=60, help="of arrivals a run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bursts", action="store_true", help="arrivals come in fives")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    results = {}
    for name in options.table or TABLES:
        table = TABLES[name]
        found = {
            policy: best(table, policy, options.seconds, options.seed, options.bursts)
            for policy in ("fifo", "two_phase", "playout")
        }
        alone = best(Table(**{**table.__dict__, "slots": 1}), "fifo", options.seconds, options.seed, options.bursts)
        results[name] = {
            policy: {"goodput": rate, "chunks": size} for policy, (rate, size) in {**found, "one_at_a_time": alone}.items()
        } | {"limit": {"goodput": limit(table), "chunks": None}}
        if not options.json:
            rivals, most = max(found["fifo"][0], found["two_phase"][0]), results[name]["limit"]["goodput"]
            shown = "  ".join(f"{policy} {rate['goodput']:6.2f}" for policy, rate in results[name].items())
            print(
                f"{name:16} {shown}  playout / best other {found['playout'][0] / max(rivals, 1e-9):.2f}"
                f"  machine's limit {most:6.2f}, / best other {most / max(rivals, 1e-9):.2f}   ({table.source})",
                flush=True,
            )
    if options.json:
        print(json.dumps(results))
