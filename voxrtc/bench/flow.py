"""Text that flows into a stream, and text in clauses, from a chat model of so many tokens a second: `bench flow`.

The engine is the real one, with Lark, stepped by hand on a clock of its own: a step takes 10 ms of it. So what is told
depends on when words come and not on the machine.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from voxrtc.chat.clauses import Clauses
from voxrtc.engine.loop import Engine
from voxrtc.engine.worker import Worker
from voxrtc.messages.engine import Chunk, Ended, EngineReply, Extend, Failed, Generate
from voxrtc.messages.model import ModelInfo
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import SpeechLM

STEP = 0.01  # seconds
TOKEN = re.compile(r" ?\S{1,6}")  # about 1.3 a word
GAP = 0.06  # seconds: less is the first chunk's, which is followed by steps too fast to be true
REPLIES = (
    "Sure, I can help you with that. First, open the window and let some fresh air in. Then sit down for a minute.",
    "The capital of Australia is not Sydney but Canberra. It lies between Sydney and Melbourne, and half a million live there.",
    "That is a good question! People like to cook at home, they want to save money, and they have more time than they had.",
    "You should take a coat with you because it may get cold in the evening, and the last bus leaves quite early on Sundays.",
)


class Inline(Executor):
    """Does a job where it is submitted."""

    def submit(self, job: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(job(*arguments, **options))
        except Exception as error:  # noqa: BLE001  whoever asks for the result gets it
            future.set_exception(error)
        return future


@dataclass
class Listener:
    """Plays what comes from its first moment on."""

    first: float = 0.0
    gaps: list[float] = field(default_factory=list)
    _until: float = 0.0

    def take(self, now: float, seconds: float) -> None:
        self.first = self.first or now
        if self._until and now - self._until > GAP:
            self.gaps.append(now - self._until)
        self._until = max(now, self._until) + seconds


class Speaker:
    """One reply, as its tokens come."""

    def __init__(self, info: ModelInfo, model: SpeechLM, flows: bool) -> None:
        self.now, self.listener, self.busy = 0.0, Listener(), False
        self._flows, self._clauses, self._waiting, self._streams = flows, Clauses(), list[str](), 0
        self._engine = Engine(Worker(model, 1), info, clock=lambda: self.now, executor=lambda name: Inline())

    def speak(self, reply: str, rate: float) -> Listener:
        tokens = TOKEN.findall(reply)
        for number, token in enumerate(tokens):
            while self.now < (number + 1) / rate:
                self._step()
            self._more(token, number == len(tokens) - 1)
        while self.busy or self._waiting:
            self._step()
        return self.listener

    def _more(self, token: str, last: bool) -> None:
        if not self._flows:
            self._waiting += self._clauses.add(token) + ([self._clauses.rest()] if last else [])
        elif self._streams:
            self._engine.submit(Extend(stream="0", text=token, final=last), self._take)
        else:
            self._begin(token, final=False)

    def _begin(self, text: str, final: bool) -> None:
        self._engine.submit(Generate(stream=str(self._streams), text=text, accepted=self.now, final=final), self._take)
        self._streams, self.busy = self._streams + 1, True

    def _step(self) -> None:
        if self._waiting and not self.busy:
            self._begin(self._waiting.pop(0), final=True)
        self.now += STEP
        self._engine.run_once()

    def _take(self, reply: EngineReply) -> None:
        if isinstance(reply, Chunk):
            self.listener.take(self.now, len(reply.pcm) / 2 / reply.sample_rate)
        elif isinstance(reply, Failed):
            raise RuntimeError(reply.message)
        elif isinstance(reply, Ended):
            self.busy = False


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m voxrtc.bench flow", description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=float, nargs="+", default=[7, 14, 30], help="a second, of the chat model")
    wanted = parser.parse_args(arguments)
    info, model = registry.load(ROOT / "models", "lark")
    print("tokens/s  text      first sound after the first token   gaps: replies with one, longest")
    for rate in wanted.tokens:
        for flows in (False, True):
            heard = [Speaker(info, model, flows).speak(reply, rate) for reply in REPLIES]
            first = [listener.first - 1 / rate for listener in heard]
            gaps = [gap for listener in heard for gap in listener.gaps]
            kind = "flows" if flows else "clauses"
            spread = f"{statistics.median(first):.2f} s ({min(first):.2f}-{max(first):.2f})"
            with_gap = sum(bool(listener.gaps) for listener in heard)
            print(f"{rate:8.0f}  {kind:8}  {spread:34}  {with_gap} of {len(heard)}, {max(gaps, default=0.0):.2f} s", flush=True)
