"""All engines: one process for each model that is loaded, so that none disturbs another. What `chat` and `api` hold."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Protocol, TypeVar

from voxrtc.engine.client import EngineClient, EngineLost, News, StreamFailed, Transport
from voxrtc.messages.conversation import Hear
from voxrtc.messages.engine import Generate, Playout, PolicyName, Stats
from voxrtc.messages.model import ModelInfo, Progress, Use

TOLD_WITHIN = 2.0  # seconds that an engine may take to answer a question

T = TypeVar("T")


class Processes(Protocol):
    """Who runs the engines' processes, by model."""

    def start(self, model: str, worth_restarting: Callable[[], bool], cache: float) -> None:
        """Run an engine for a model. It is restarted when it dies, as long as that is worth it.

        Its streams' keys and values may take `cache` GB; 0: what is good and there.
        """

    async def stop(self, model: str) -> None: ...

    def runs(self, model: str) -> bool: ...

    def failure(self, model: str) -> str | None:
        """Why a process that was started is gone, when it is not restarted."""


class InUse(Exception):
    """A model that cannot be unloaded while `live` streams speak with it."""

    def __init__(self, model: str, live: int) -> None:
        streams = "a listener" if live == 1 else f"{live} listeners"
        super().__init__(f"“{model}” speaks to {streams}. Unload it when they have ended.")
        self.live = live


class OneEngine(Exception):
    """A model that has one engine and can have no more."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"“{model}” runs as one engine here. Start the server with --replicas 2, or more, or with --workers ray."
        )


class NotLoading(Exception):
    """Loading that cannot be given up, since the model is not being loaded."""

    def __init__(self, model: str, state: str) -> None:
        super().__init__(f"“{model}” is not being loaded: it is {'ready' if state == 'ready' else 'not loaded'}.")


class Fleet:
    """Engines by the name of their model, the default one first. It has the face of a single one, `EngineClient`.

    The web process gives `processes`, and can load and unload; others only reach what is there.
    """

    def __init__(self, transports: Mapping[str, Transport], processes: Processes | None = None) -> None:
        self._clients = {model: EngineClient(transport) for model, transport in transports.items()}
        self._processes = processes
        self._changing = asyncio.Lock()

    @property
    def default(self) -> str:
        """The model that speaks when none is named."""
        return next(iter(self._clients))

    @property
    def known(self) -> list[ModelInfo]:
        """The models that are ready, or were until their engines died and are being restarted; the default one first."""
        return [client.info for client in self._clients.values() if client.info]

    def named(self, model: str) -> str:
        """The model meant: the first that is known where none is named."""
        return model or next((info.name for info in self.known), self.default)

    def runs(self, model: str) -> bool:
        """A model takes text while it speaks, as far as is known."""
        return any(info.running for info in self.known if info.name == model)

    def instructed(self, model: str) -> bool:
        """A model takes words that say how to speak, as far as is known."""
        return any(info.instructed for info in self.known if info.name == model)

    def hears(self, model: str) -> bool:
        """A model hears and answers by itself, as far as is known. "": the one that speaks when none is named."""
        return any(info.kind == "speech to speech" for info in self.known if info.name == self.named(model))

    def hear(self, model: str, sound: Hear) -> None:
        """`EngineClient.hear`, by this model's engine."""
        self._clients[self.named(model)].hear(sound)

    def unhear(self, model: str, hearing: str) -> None:
        """`EngineClient.unhear`."""
        self._clients[self.named(model)].unhear(hearing)

    async def generate(self, request: Generate) -> AsyncGenerator[News, None]:
        """`EngineClient.generate` by the engine of `request.model`. Raises `StreamFailed`."""
        async with contextlib.aclosing(self._engine_for(request.model).generate(request)) as replies:
            async for reply in replies:
                yield reply

    def cancel(self, stream: str) -> None:
        """`EngineClient.cancel`."""
        for client in self._clients.values():
            client.cancel(stream)

    def extend(self, stream: str, text: str, final: bool = False) -> None:
        """`EngineClient.extend`."""
        for client in self._clients.values():
            client.extend(stream, text, final)

    def report(self, playout: Playout) -> None:
        """`EngineClient.report`."""
        for client in self._clients.values():
            if client.speaks(playout.stream):
                client.report(playout)

    def forget_voice(self, digest: str) -> None:
        """`EngineClient.forget_voice`, by all engines."""
        for client in self._clients.values():
            client.forget_voice(digest)

    def plan_by(self, policy: PolicyName) -> None:
        """`EngineClient.plan_by`, for all engines."""
        for client in self._clients.values():
            client.plan_by(policy)

    async def resize(self, model: str, replicas: int) -> None:
        """Have so many replicas of a model. Those that go end when their streams have.

        Raises `OneEngine`, `EngineLost` where the model is not ready, and `KeyError` for an unknown one.
        """
        client = self._clients[model]
        if not (await asyncio.wait_for(client.stats(), TOLD_WITHIN)).replicas:
            raise OneEngine(model)
        client.resize(replicas)

    async def models(self) -> list[ModelInfo]:
        """The models whose engines answer now. Raises `EngineLost` when there are none, and says why."""
        answers = await self._ask_all(EngineClient.models)
        return [model for models in answers.values() for model in models]

    async def stats(self) -> dict[str, Stats]:
        """Counters by model, of the engines that answer. Raises as `models` does."""
        return await self._ask_all(EngineClient.stats)

    async def _ask_all(self, question: Callable[[EngineClient], Awaitable[T]]) -> dict[str, T]:
        asked = [asyncio.wait_for(question(client), TOLD_WITHIN) for client in self._clients.values()]
        answers: dict[str, T] = {}
        failures: list[BaseException] = []
        for model, answer in zip(self._clients, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(answer, BaseException):
                failures.append(answer)
            else:
                answers[model] = answer
        if not answers:
            silent = any(isinstance(failure, TimeoutError) for failure in failures)
            raise EngineLost("The speech engine does not answer. Please try again." if silent else self.why_none())
        return answers

    def why_none(self) -> str:
        """Why nobody can speak, when so, and what to do."""
        for model, client in self._clients.items():
            if client.progress and client.progress.state == "loading":
                return f"“{model}” is being loaded ({client.progress.words}). Please try again in a few seconds."
            if client.progress and client.progress.state == "failed":
                return f"“{model}” could not be loaded. {client.progress.message}"
        if self._processes and not any(map(self._processes.runs, self._clients)):
            return "No model is loaded. Load one on the page."
        return "The speech engine is starting. Please try again in a few seconds."

    async def until_known(self) -> None:
        """Wait for a first model."""
        await self._any(lambda model, client: bool(self.known))

    def changed(self) -> Coroutine[None, None, None]:
        """Wait until any model is in another state than at this call."""
        seen = {model: client.state for model, client in self._clients.items()}
        return self._any(lambda model, client: client.state != seen[model])

    async def _any(self, holds: Callable[[str, EngineClient], bool]) -> None:
        waits = [asyncio.ensure_future(client.until(partial(holds, model, client))) for model, client in self._clients.items()]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def close(self) -> None:
        """Let go of all engines; open streams end with `StreamFailed`."""
        for client in self._clients.values():
            await client.close()

    # --- where the processes are run ---

    def states(self) -> dict[str, Progress]:
        """How far each model is."""
        return {model: self._state(model) for model in self._clients}

    async def use(self, model: str) -> Use:
        """Who uses a model, and what it holds. Raises `EngineLost`, `TimeoutError`, and `KeyError` for an unknown one."""
        return await asyncio.wait_for(self._clients[model].use(), TOLD_WITHIN)

    async def load(self, model: str, cache: float = 0) -> None:
        """Begin to load a model, also one that failed. Raises `KeyError` for an unknown one.

        Its streams' keys and values may take `cache` GB; 0: what is good and there.
        """
        assert self._processes is not None
        async with self._changing:
            if self._state(model).state == "failed":
                await self._end(model)
            if not self._processes.runs(model):
                client = self._clients[model]
                # what never was ready would die again
                self._processes.start(model, lambda: client.info is not None, cache)

    async def unload(self, model: str) -> None:
        """End a model's process, wherever it is with it. Raises `InUse`, and `KeyError` for an unknown model."""
        assert self._processes is not None
        async with self._changing:
            await self._unload(model)

    async def give_up(self, model: str) -> None:
        """End the loading of a model. What came of its download stays. Raises `NotLoading`, and `KeyError` as `load` does."""
        async with self._changing:
            if (state := self._state(model).state) != "loading":
                raise NotLoading(model, state)
            await self._unload(model)

    async def _unload(self, model: str) -> None:
        with contextlib.suppress(EngineLost, TimeoutError):  # what does not answer has no listener either
            if live := await asyncio.wait_for(self._clients[model].unload(), TOLD_WITHIN):
                raise InUse(model, live)
        await self._end(model)

    async def settled(self, model: str) -> Progress:
        """Wait until a model is ready or has failed."""
        client = self._clients[model]
        while (state := self._state(model)).state == "loading":
            with contextlib.suppress(TimeoutError):  # a process that died and stays dead tells nobody
                await asyncio.wait_for(client.until(lambda seen=client.progress: client.progress is not seen), 1.0)  # type: ignore[misc]
        return state

    async def _end(self, model: str) -> None:
        assert self._processes is not None
        await self._processes.stop(model)
        client = self._clients[model]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(client.until(lambda: client.progress is None), TOLD_WITHIN)
        client.forget()

    def _state(self, model: str) -> Progress:
        assert self._processes is not None
        if failure := self._processes.failure(model):
            return Progress(state="failed", message=failure)
        if not self._processes.runs(model):
            return Progress(state="unloaded")
        return self._clients[model].progress or Progress(state="loading", stage="starting")

    # --- who speaks ---

    def _engine_for(self, model: str) -> EngineClient:
        """The engine to ask. Raises `StreamFailed` where there is none and none is on its way."""
        known = [info.name for info in self.known]
        model = self.named(model)
        client, expected = self._clients.get(model), model == self.default
        if self._processes:
            expected = self._processes.runs(model)
        if client and (client.progress or client.info or expected):
            return client
        what = "is not loaded" if client else "does not exist"
        raise StreamFailed("model_not_found", f"The model “{model[:64]}” {what}. Loaded: {', '.join(known) or 'none'}.")
