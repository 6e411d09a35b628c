"""An engine without a model, for tests of everything above the engine: it answers text with a tone."""

from __future__ import annotations

import asyncio
import math
import re
import time
from array import array
from collections.abc import AsyncGenerator, Callable

from voxrtc.engine.client import EngineLost
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.engine import (
    Cancel,
    Chunk,
    Ended,
    EngineReply,
    EngineRequest,
    Extend,
    Failed,
    Generate,
    GetStats,
    Playout,
    PolicyName,
    Queued,
    ReplicaStats,
    SetPolicy,
    Spoken,
    Stats,
    Timing,
)
from voxrtc.messages.model import GetModels, GetUse, ModelInfo, Models, Progress, Unload, Unloaded, Use, Watch

TONE = array("h", (int(12_000 * math.sin(math.tau * 44 * i / 2400)) for i in range(2400))).tobytes()  # 0.1 s of 440 Hz
TONE_MODEL = ModelInfo(
    name="tone",
    title="Tone",
    description="A sine, for tests.",
    family="tone",
    languages=["en"],
    voices=["default"],
    licence="Apache-2.0",
    sample_rate=24_000,
    frame_rate=40.0,
)


def tones(*transports: ToneTransport) -> Fleet:
    """A fleet of these engines, the default one first; of one, when none is given."""
    return Fleet({transport.info.name: transport for transport in transports or (ToneTransport(),)})


class ToneProcesses:
    """Runs engines that are transports: a started one is ready at once, or has failed for the reason in `failures`."""

    def __init__(self, *transports: ToneTransport) -> None:
        self.transports = {transport.info.name: transport for transport in transports}
        self.failures: dict[str, str] = {}
        self.running: set[str] = set()
        self.caches: dict[str, float] = {}
        self.slow: set[str] = set()  # models whose loading does not end

    def start(self, model: str, worth_restarting: Callable[[], bool], cache: float) -> None:
        assert model not in self.running and not worth_restarting()
        self.running.add(model)
        self.caches[model] = cache
        transport = self.transports[model]
        if model in self.slow:
            transport.lost = False
            transport.on_reply(Progress(state="loading", stage="downloading", done=3, total=10, rate=2.5))
        elif why := self.failures.get(model):
            transport.on_reply(Progress(state="failed", message=why))
        else:
            transport.find()

    async def stop(self, model: str) -> None:
        if model in self.running:
            self.running.remove(model)
            self.transports[model].lose()

    def runs(self, model: str) -> bool:
        return model in self.running

    def failure(self, model: str) -> str | None:
        return None


class ToneTransport:
    """Speaks 0.1 s of 440 Hz a word in 0.1 s chunks, `speed` times faster than real time (0: as fast as it can).

    The text "fail" fails; `lose()` plays a dead engine. `requests` keeps what was asked. A stream first waits at each of
    the `places` of a queue, 2 s a place by its own account. If it is `aligned`, it says when each word is spoken. One that
    is `mute` answers nothing.
    """

    def __init__(self, speed: float = 0.0, info: ModelInfo = TONE_MODEL) -> None:
        self.speed, self.info, self.lost, self.places, self.aligned = speed, info, False, 0, False
        self.mute = False
        self.used, self.memory = 0.0, 1.0  # when last, and GB
        self.policy: PolicyName = "playout"
        self.replicas: list[ReplicaStats] = []
        self.requests: list[EngineRequest] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.texts: dict[str, asyncio.Queue[Extend]] = {}  # what is still to come, of streams whose text runs

    def connect(self, on_reply: Callable[[EngineReply], None], on_lost: Callable[[], None]) -> None:
        self.on_reply, self.on_lost = on_reply, on_lost
        if not self.lost:
            self.find()

    def find(self) -> None:
        """The engine is back."""
        self.lost = False
        self.on_reply(Progress(state="ready", info=self.info))

    def lose(self) -> None:
        self.lost = True
        for task in self.tasks.values():
            task.cancel()
        self.on_lost()

    def send(self, request: EngineRequest) -> None:
        if self.lost:
            raise EngineLost("the engine is gone")
        self.requests.append(request)
        if self.mute:
            return
        match request:
            case Generate():
                self.used = time.monotonic()
                self.texts[request.stream] = asyncio.Queue()
                self.tasks[request.stream] = asyncio.get_running_loop().create_task(self._speak(request))
            case Extend():
                self.texts[request.stream].put_nowait(request)
            case Cancel() if task := self.tasks.pop(request.stream, None):
                task.cancel()
            case Watch():
                self.on_reply(Progress(state="ready", info=self.info))
            case GetModels():
                self.on_reply(Models(call=request.call, models=[self.info]))
            case GetStats():
                self.on_reply(
                    Stats(
                        call=request.call,
                        uptime=1.0,
                        steps=0,
                        frames=0,
                        chunks=0,
                        finished=0,
                        cancelled=0,
                        failed=0,
                        frames_after_cancel=0,
                        preempted=0,
                        gave_way=0,
                        paused=0.0,
                        policy=self.policy,
                        overhead=0.0,
                        costs={},
                        kv_pages_used=0,
                        kv_pages=1,
                        waiting=0,
                        streams=[],
                        now=time.monotonic(),
                        replicas=self.replicas,
                    )
                )
            case GetUse():
                live = sum(not task.done() for task in self.tasks.values())
                self.on_reply(Use(call=request.call, live=live, last=self.used, memory=self.memory))
            case Unload():
                live = sum(not task.done() for task in self.tasks.values())
                self.on_reply(Unloaded(call=request.call, live=live))
                if not live:
                    self.on_reply(Progress(state="unloaded"))
            case SetPolicy():
                self.policy = request.policy
            case Playout() | Cancel():
                pass

    async def _speak(self, request: Generate) -> None:
        if request.text == "fail":
            self.on_reply(Failed(stream=request.stream, code="engine_error", message="This text fails."))
            return
        for position in range(self.places, 0, -1):
            self.on_reply(Queued(stream=request.stream, position=position, wait=2.0 * position))
            await asyncio.sleep(0.1 / self.speed if self.speed else 0)
        now = time.monotonic()
        timing = Timing(
            accepted=request.accepted, received=now, prompt_ready=now, first_step=now, first_frame=now, first_chunk=now
        )
        index = -1
        async for index, end in self._words(request):
            await asyncio.sleep(0.1 / self.speed if self.speed else 0)
            self.on_reply(
                Chunk(
                    stream=request.stream,
                    index=index,
                    pcm=TONE,
                    sample_rate=24_000,
                    timing=timing if index == 0 else None,
                    spoken=[Spoken(begin=0.1 * index, end=0.1 * (index + 1), characters=end)] if self.aligned else [],
                )
            )
        self.on_reply(Ended(stream=request.stream, reason="done", frames=4 * (index + 1)))

    async def _words(self, request: Generate) -> AsyncGenerator[tuple[int, int], None]:
        """Where each word ends, as soon as it is known."""
        text, final, count = request.text, request.final, 0
        while True:
            ends = [word.end() for word in re.finditer(r"\S+" if final else r"\S+(?=\s)", text)]
            for end in ends[count:]:
                yield count, end
                count += 1
            if final:
                return
            more = await self.texts[request.stream].get()
            text, final = text + more.text, more.final

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
