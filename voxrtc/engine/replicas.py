"""Several engines of one model as one: takes what an `Engine` takes, and gives each stream to one of them, which keeps it.

Runs on an event loop of its own. A replica that dies takes its streams with it, but for those that have not made a sound
yet: they begin anew elsewhere, and nobody hears of it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from functools import partial

from voxrtc.engine.client import LOST, EngineLost, Transport
from voxrtc.engine.clocks import Offset, from_replica, to_replica
from voxrtc.engine.keeping import keep
from voxrtc.engine.link import Host, Link, Placed
from voxrtc.engine.placing import Placing
from voxrtc.engine.server import Reply
from voxrtc.engine.sums import added, counted
from voxrtc.machine import resident
from voxrtc.messages.conversation import Forget, Hear, Wrote
from voxrtc.messages.engine import (
    Cancel,
    Chunk,
    Ended,
    EngineReply,
    EngineRequest,
    Extend,
    Failed,
    ForgetVoice,
    Generate,
    GetStats,
    Playout,
    Queued,
    SetPolicy,
    SetReplicas,
    Stats,
)
from voxrtc.messages.model import GetModels, GetUse, ModelInfo, Models, Progress, Use

LOOK_EVERY = 0.25  # seconds between looks at a replica's load
SILENT = 10.0  # seconds without an answer, after which a replica is taken to hang, and ended
STOOD = 1.0  # seconds that a look may come late, after which it was we who did not answer
FOUND_WITHIN = 10.0  # seconds that a connection may take before its address is asked for again

log = logging.getLogger(__name__)


class Replicas:
    """`host` runs `count` of them. `tell` is told of the model's progress until the first is ready, `opened` of that one.

    Make it on its event loop. Of its methods only `submit` and `refusal` may be called elsewhere.
    """

    def __init__(
        self,
        host: Host,
        count: int,
        tell: Callable[[Progress], None],
        opened: Callable[[Replicas, ModelInfo], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._tell, self._opened, self._clock = host, tell, opened, clock
        self._loop = asyncio.get_running_loop()
        self._links: dict[str, Link] = {}
        self._placing = Placing(self._links)
        self._past: Stats | None = None  # what replicas had counted that are gone
        self._keeping: dict[str, asyncio.Task[None]] = {}
        self._owners: dict[str, Link] = {}  # of streams
        self._policy: SetPolicy | None = None
        self._info: ModelInfo | None = None
        self._calls = itertools.count()
        self._curious: list[tuple[int, Reply]] = []  # who asked for `Stats` before there were any
        self._looking = asyncio.create_task(self._look())
        self.resize(count)

    # --- from the server's thread ---

    def submit(self, request: EngineRequest, reply: Reply) -> None:
        """`Submits.submit`."""
        self._loop.call_soon_threadsafe(self._take, request, reply)

    def refusal(self, request: Generate) -> Failed | None:
        """`Submits.refusal`: none may be left."""
        if self._able:
            return None
        return Failed(stream=request.stream, code="engine_lost", message=LOST)

    @property
    def _able(self) -> bool:
        return any(link.ready for link in list(self._links.values()))

    # --- on the loop ---

    @property
    def memory(self) -> float:
        """GB that all hold, and this process."""
        return resident() + sum(link.memory for link in list(self._links.values()))

    def resize(self, count: int) -> None:
        """Have so many. New ones are started; those that are too many take no more streams, and end when theirs have: those
        that have least to do, and first who is not ready."""
        assert count > 0
        serving = [link for link in self._links.values() if not link.draining]
        for link in sorted(serving, key=lambda link: (link.ready, len(link.streams)), reverse=True)[count:]:
            self._drain(link)
        free = (name for number in range(count + len(self._links)) if (name := f"replica-{number}") not in self._links)
        for name in (next(free) for _ in range(count - len(serving))):
            self._links[name] = link = Link(name)
            self._keeping[name] = asyncio.create_task(self._keep(link), name=name)

    def _drain(self, link: Link) -> None:
        link.draining = True
        if not link.streams:  # it may also be one that no place was found for
            self._loop.call_soon(self._keeping[link.name].cancel)  # once it has begun, or it would not clean up

    async def close(self) -> None:
        """End all; streams fail."""
        for task in (self._looking, *self._keeping.values()):
            task.cancel()
        for link in self._links.values():
            self._lose(link)
        await self._host.close()

    def _take(self, request: EngineRequest, reply: Reply) -> None:
        match request:
            case Generate():
                self._place(Placed(request, reply))
            case Hear(hearing=hearing, first=first):
                if link := self._links.get(self._placing.hearing(hearing, first)):
                    self._send(link, request)
            case Forget(hearing=hearing):
                if link := self._links.get(self._placing.forget_hearing(hearing)):
                    self._send(link, request)
            case ForgetVoice(digest=digest):
                self._placing.forget_voice(digest)
                for link in self._links.values():
                    self._send(link, request)
            case Cancel(stream=stream) | Playout(stream=stream) | Extend(stream=stream):
                if link := self._owners.get(stream):
                    link.streams[stream].grown |= isinstance(request, Extend)
                    self._send(link, request)
            case SetPolicy():
                self._policy = request
                for link in self._links.values():
                    self._send(link, request)
            case SetReplicas(count=count):
                self.resize(count)
            case GetModels(call=call) if self._able:  # else nobody does answer
                assert self._info
                reply(Models(call=call, models=[self._info]))
            case GetStats(call=call):
                self._curious.append((call, reply))
                self._answer()

    def _place(self, stream: Placed) -> None:
        name = self._placing.stream(stream.request)
        if not name:
            stream.reply(Failed(stream=stream.request.stream, code="engine_lost", message=LOST))
            return
        link = self._links[name]
        link.streams[stream.request.stream] = stream
        self._owners[stream.request.stream] = link
        self._send(link, stream.request)

    def _send(self, link: Link, request: EngineRequest) -> None:
        if link.transport:
            try:
                link.transport.send(to_replica(request, link.offset.seconds))
            except EngineLost:
                self._lose(link)

    # --- a replica's life ---

    async def _keep(self, link: Link) -> None:
        try:
            await keep(self._host, link, self._connected, partial(self._waits, link))
        finally:
            del self._links[link.name], self._keeping[link.name]

    async def _connected(self, link: Link, transport: Transport) -> None:
        """As long as there is a way to a replica."""
        link.lost.clear()
        link.there.clear()
        link.transport = transport
        transport.connect(lambda reply: self._on_reply(link, reply), lambda: self._lose(link))
        try:
            await asyncio.wait_for(link.there.wait(), FOUND_WITHIN)
            await link.lost.wait()
        except TimeoutError:
            log.warning("%s does not answer at its address", link.name)
        finally:
            self._lose(link)
            await transport.close()

    def _lose(self, link: Link) -> None:
        """There is no way to it any more: what has not sounded goes elsewhere."""
        if link.stats:
            self._past = counted(self._past, link.stats)
        link.transport = link.progress = link.stats = None
        link.offset, link.memory = Offset(), 0.0
        link.asked.clear()
        link.lost.set()
        streams, link.streams = link.streams, {}
        for name, stream in streams.items():
            del self._owners[name]
            if stream.sounded or stream.grown or stream.moved:
                stream.reply(Failed(stream=name, code="engine_lost", message=LOST))
            else:
                stream.moved = True
                self._place(stream)

    def _on_reply(self, link: Link, reply: EngineReply) -> None:
        match reply:
            case Progress():
                link.there.set()
                link.progress = reply
                self._progressed(link, reply)
            case Stats(call=call):
                link.stats = reply
                link.ended.clear()
                if (asked := link.asked.pop(call, None)) is not None:
                    link.offset.observe(asked, reply.now, self._clock())
                self._answer()
            case Use(memory=memory):
                link.memory = memory
            case Queued(stream=name) | Wrote(stream=name) | Chunk(stream=name) | Ended(stream=name) | Failed(stream=name):
                if stream := link.streams.get(name):
                    stream.sounded |= isinstance(reply, Wrote | Chunk)
                    if isinstance(reply, Ended | Failed):
                        del link.streams[name], self._owners[name]
                        link.ended.add(name)
                        if link.draining and not link.streams:
                            link.lost.set()
                    stream.reply(from_replica(reply, link.offset.seconds))
            case _:
                pass  # answers to what is not asked

    def _progressed(self, link: Link, progress: Progress) -> None:
        if progress.state == "ready":
            assert progress.info
            link.failures = 0
            if self._policy:
                self._send(link, self._policy)
            self._ask(link)
            if self._info is None:
                self._info = progress.info
                self._opened(self, progress.info)
            return
        if progress.state == "failed":
            log.error("%s could not be loaded: %s", link.name, progress.message)
            link.failed(self._clock())
        if self._info is None:
            self._tell(progress)

    def _waits(self, link: Link, what: str) -> None:
        """A replica has no place yet. The model itself is being loaded only until one of them is ready."""
        if self._info is None:
            self._tell(Progress(state="loading", stage=what))
        else:
            log.warning("%s is %s", link.name, what)

    # --- how they are ---

    async def _look(self) -> None:
        while True:
            before = self._clock()
            await asyncio.sleep(LOOK_EVERY)
            now = self._clock()
            for link in [link for link in self._links.values() if link.progress]:
                if now - before > LOOK_EVERY + STOOD:
                    link.asked.clear()  # answers may have come meanwhile, and wait to be read
                if link.silent(now) > SILENT:
                    self._renew(link, "does not answer")
                elif link.ready:
                    self._ask(link)
                elif link.unfit and self._info and now >= link.again:
                    self._renew(link, "could not be loaded")

    def _renew(self, link: Link, why: str) -> None:
        log.error("%s %s: it is ended, and started anew", link.name, why)
        link.ill = True
        self._lose(link)

    def _ask(self, link: Link) -> None:
        call = next(self._calls)
        link.asked[call] = self._clock()
        self._send(link, GetStats(call=call))
        self._send(link, GetUse(call=call))

    def _answer(self) -> None:
        """Who wants to know, as soon as anything is known."""
        if each := {link.name: link.stats for link in self._links.values() if link.stats}:
            for call, reply in self._curious:
                reply(added(call, each, self._past))
            self._curious.clear()
