"""Child processes of the program: started together, watched, restarted when they die, stopped together."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds before a restart; doubled while a child keeps dying young
HEALTHY = 10.0  # seconds of life after which a child's next death counts as its first


@dataclass
class Child:
    """A Python module run as a process of its own. Its standard input is its lifeline: see `voxrtc.lifeline`."""

    name: str
    arguments: list[str]  # after the interpreter
    environment: dict[str, str]
    worth_restarting: Callable[[], bool] = lambda: True  # asked when it has died
    process: asyncio.subprocess.Process | None = None
    end: str = ""  # what became of its latest process: "ended with code 1"
    restarts: int = 0
    _pause: float = field(default=FIRST_PAUSE, repr=False)

    async def keep_running(self) -> None:
        """Run until cancelled, or until it ends and is not worth restarting."""
        while True:
            born = asyncio.get_running_loop().time()
            self.end = await self._live()
            lived = asyncio.get_running_loop().time() - born
            if not self.worth_restarting():
                log.error("the %s process %s after %.0f s", self.name, self.end, lived)
                return
            self._pause = FIRST_PAUSE if lived > HEALTHY else min(2 * self._pause, LONGEST_PAUSE)
            self.restarts += 1
            log.error("the %s process %s after %.0f s; it is started again", self.name, self.end, lived)
            await asyncio.sleep(self._pause)

    async def _live(self) -> str:
        """Once. How it ended."""
        try:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self.arguments,
                env={**os.environ, **self.environment},
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,  # a terminal's Ctrl-C is for the parent, which then stops its children in order
            )
        except OSError as error:  # no memory is left, say, or no file
            return f"could not be started ({error.strerror})"
        try:
            return f"ended with code {await self.process.wait()}"
        except asyncio.CancelledError:
            await self._stop()
            raise

    async def _stop(self) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), 3)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()


class Supervisor:
    """All children, by name. Those it is made with run within `async with`; others come and go meanwhile."""

    def __init__(self, children: Sequence[Child] = ()) -> None:
        self.children = {child.name: child for child in children}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._gone: Counter[str] = Counter()  # restarts of children that were stopped

    @property
    def restarts(self) -> dict[str, int]:
        """How often each child was started again, by name, also those that are gone."""
        there = {name: child.restarts + self._gone[name] for name, child in self.children.items()}
        return {**self._gone, **there}

    async def __aenter__(self) -> Supervisor:
        for child in list(self.children.values()):
            self.start(child)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(self.stop(name) for name in list(self._tasks)))

    def start(self, child: Child) -> None:
        """Run a child of a new name."""
        assert child.name not in self._tasks, f"{child.name} runs already"
        self.children[child.name] = child
        self._tasks[child.name] = asyncio.create_task(child.keep_running(), name=child.name)

    async def stop(self, name: str) -> None:
        """End a child, if there is one of that name, and forget it."""
        if task := self._tasks.get(name):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._tasks.pop(name, None)
        if child := self.children.pop(name, None):
            self._gone[name] += child.restarts

    def runs(self, name: str) -> bool:
        """Whether there is such a child, which is alive or about to be restarted."""
        return name in self._tasks and not self._tasks[name].done()
