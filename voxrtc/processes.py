"""What the web process' children are started with: media processes, which are there as long as it is, and those that come and
go, an engine for each model that is loaded (`engine.fleet.Processes`) and virtual peers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from voxrtc.cards import Card
from voxrtc.settings import HUB_TOKENS, Settings
from voxrtc.supervisor import Child, Supervisor


def media_names(settings: Settings) -> list[str]:
    """Of the media processes."""
    return ["media", *(f"media-{number}" for number in range(2, settings.media_processes + 1))]


def media_processes(
    settings: Settings, addresses: Mapping[str, str], engines: Mapping[str, str], hearing: str, chat: str
) -> list[Child]:
    """Media processes by their `addresses`, each of which has its share of all places. The others' addresses are of engines by
    model, the default one first, of speech to text, and of the chat model, if one comes along."""
    known = [word for model, address in engines.items() for word in ("--engine", f"{model}={address}")]
    arguments = ["-m", "voxrtc.chat.media", *known, "--hearing", hearing, "--chat", chat]

    def child(name: str, places: int) -> Child:
        alone = {"VOXRTC_MEDIA_PROCESSES": "1", "VOXRTC_MAX_PEERS": str(places)}
        environment = settings.environment("VOXRTC_CHAT_KEY") | alone
        return Child(name, [*arguments, "--name", name, "--listen", addresses[name]], environment)

    return [child(name, places) for name, places in zip(addresses, shares(settings.max_peers, len(addresses)), strict=True)]


def shares(places: int, processes: int) -> list[int]:
    """So many for each, nearly as many for all."""
    return [(places + number) // processes for number in reversed(range(processes))]


class EngineProcesses:
    """Children of `supervisor`, by their model's card; each serves at the address that is its model's."""

    def __init__(
        self, supervisor: Supervisor, settings: Settings, cards: Mapping[str, Card], addresses: Mapping[str, str]
    ) -> None:
        self._supervisor, self._settings, self._cards, self._addresses = supervisor, settings, cards, addresses

    def start(self, model: str, worth_restarting: Callable[[], bool], cache: float) -> None:
        """Raises `KeyError` for a model without a card."""
        several = self._settings.workers != "local" or self._settings.replicas > 1
        module = "voxrtc.engine.cluster" if several else "voxrtc.engine.process"
        arguments = ["-m", module, "--listen", self._addresses[model]]
        if any(map(self.runs, self._cards)):
            arguments.append("--beside-others")
        environment = {**self._settings.environment(*HUB_TOKENS), "VOXRTC_MODEL": model}
        if cache and not self._settings.kv_memory:
            environment["VOXRTC_KV_MEMORY"] = f"{cache:.6f}"
        self._supervisor.start(Child(_name(model), arguments, environment, worth_restarting))

    async def stop(self, model: str) -> None:
        await self._supervisor.stop(_name(model))

    def runs(self, model: str) -> bool:
        return self._supervisor.runs(_name(model))

    def failure(self, model: str) -> str | None:
        """What to make of a process that died while it was loading its model."""
        child = self._supervisor.children.get(_name(model))
        if child is None or self.runs(model) or not child.end:
            return None
        memory = f" (it needs about {self._cards[model].needs.memory:.1f} GB)"
        what = f"Its process {child.end} while loading."
        return f"{what} Is there too little memory{memory}? The server's log may say more."


def _name(model: str) -> str:
    return f"{model} engine"


class CrowdProcess:
    """That of virtual peers: `crowd.company.Process` by the supervisor."""

    def __init__(self, supervisor: Supervisor, child: Child) -> None:
        self._supervisor, self._child = supervisor, child

    def start(self) -> None:
        if not self._supervisor.runs(self._child.name):
            self._supervisor.start(self._child)

    async def stop(self) -> None:
        await self._supervisor.stop(self._child.name)
