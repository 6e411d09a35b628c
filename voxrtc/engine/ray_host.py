"""Replicas as Ray actors, wherever in a Ray cluster there is a place for one: https://docs.ray.io, "Actors".

Ray finds places, starts, restarts and ends; sound and text go between router and replica directly, encrypted, and know nothing
of Ray. Its own actor calls take about a millisecond, and would copy each chunk through its object store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import ray
import zmq

from voxrtc import machine
from voxrtc.cards import Needs
from voxrtc.engine.client import Transport
from voxrtc.engine.transport import ZmqTransport
from voxrtc.fit import least_memory
from voxrtc.settings import HUB_TOKENS, Settings

AGAIN = 0.5  # seconds between questions to an actor that is being restarted
PATIENCE = 15.0  # seconds for a place, after which it is said that there is none yet

log = logging.getLogger(__name__)


class Actor:
    """An engine in a process that Ray started: serves like `engine.process`, and says where."""

    def __init__(self, environment: dict[str, str]) -> None:
        os.environ.update(environment)  # before anything of ours is imported that reads it
        from voxrtc.engine.process import load
        from voxrtc.engine.server import EngineServer
        from voxrtc.niceness import give_way

        self._public, secret = zmq.curve_keypair()
        settings = Settings()
        self._server = EngineServer(settings.model, f"tcp://{ray.util.get_node_ip_address()}:*", secret)
        give_way(5)  # a step can wait a moment, a packet cannot
        for name, work in (("loading", lambda: load(settings, self._server, False)), ("serving", self._server.serve)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def place(self) -> tuple[str, bytes]:
        """Its address and public key."""
        return self._server.address, self._public


class RayHost:
    """`replicas.Host` by Ray: the cluster that RAY_ADDRESS names, or one of this machine alone, which ends with us."""

    def __init__(self, settings: Settings, needs: Needs) -> None:
        self._settings = settings
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no word to anybody
        ray.init(include_dashboard=False, logging_level=logging.WARNING, log_to_driver=True)
        # What the cluster has counts, not this machine, which may have no GPU while all others do
        if settings.device != "cpu" and ray.cluster_resources().get("GPU", 0):
            self._resources = {"num_cpus": 1, "num_gpus": 1}
        else:
            memory = least_memory(needs, machine.look("cpu", settings.dtype))
            self._resources = {"num_cpus": 1, "memory": round(memory * machine.GB)}
        self._actors: dict[str, Any] = {}  # Ray's types know no handle of a class that is made remote here

    async def find(self, name: str, tell: Callable[[str], None]) -> Transport:
        if name not in self._actors:
            options = {**self._resources, "max_restarts": -1, "max_concurrency": 2}
            self._actors[name] = ray.remote(Actor).options(**options).remote(self._settings.environment(*HUB_TOKENS))
        actor = self._actors[name]
        while True:
            asked = asyncio.wrap_future(actor.place.remote().future())
            try:
                address, key = await asyncio.wait_for(asyncio.shield(asked), PATIENCE)
                return ZmqTransport(address, key)
            except TimeoutError:
                wanted = " and ".join(f"{amount:.3g} {what}" for what, amount in self._wanted().items())
                tell(f"waiting for a machine with {wanted}")
            except ray.exceptions.ActorDiedError:
                del self._actors[name]  # its constructor failed, or Ray has given it up
                raise
            except ray.exceptions.RayError as gone:  # it is being restarted
                log.info("%s: %s", name, str(gone).splitlines()[0])
            await asyncio.sleep(AGAIN)

    def _wanted(self) -> dict[str, float]:
        words = {"num_cpus": "core", "num_gpus": "GPU", "memory": "GB of memory"}
        return {words[kind]: amount / (1e9 if kind == "memory" else 1) for kind, amount in self._resources.items()}

    async def stop(self, name: str) -> None:
        if actor := self._actors.pop(name, None):
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(actor)

    async def close(self) -> None:
        self._actors.clear()
        await asyncio.to_thread(ray.shutdown)
