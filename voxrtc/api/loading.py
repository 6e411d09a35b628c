"""`/v1/voxrtc/models`: all models that have a card, how far each is, and routes that load and unload them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypedDict, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from voxrtc.api import contract
from voxrtc.api.errors import ApiError
from voxrtc.cards import Card, Needs
from voxrtc.engine.client import EngineLost
from voxrtc.engine.fleet import Fleet, InUse, NotLoading, OneEngine
from voxrtc.engine.keeper import Keeper
from voxrtc.engine.room import NoRoom
from voxrtc.fit import Fit
from voxrtc.messages.model import ModelInfo

MOST_REPLICAS = 256
# What cannot be done with a model as things are, and the error's code
CONFLICTS: dict[type[Exception], str] = {
    NoRoom: "no_room",
    NotLoading: "not_loading",
    InUse: "model_in_use",
    OneEngine: "one_engine",
}
EMPTY = contract.takes(application_json={"type": "object"})

Change = TypeVar("Change", bound=Callable[..., Any])


class Origin(TypedDict):
    repo: str
    licence: str
    link: str
    gated: bool


class OnShelf(ModelInfo, frozen=True, kw_only=True):
    """What `Shelf.show` tells of a model: its card, how it fits this machine (GB in `holds`, bytes in `download`), and how far
    it is."""

    default: bool
    suggested: bool
    here: bool
    sources: list[Origin]
    needs: Needs
    download: int
    holds: float
    fit: Fit
    state: Literal["loading", "ready", "failed", "unloaded"]
    stage: str
    done: int
    total: int
    rate: float
    message: str


class Place(TypedDict):
    words: str
    gpu: bool
    room: float
    shared: bool


class Shown(TypedDict):
    """All models, and the machine that they are to run on, with GB of room."""

    models: list[OnShelf]
    machine: Place


class Shelf:
    """The cards of the models that `keeper` loads into `engines`, and how far each is.

    On a `public` host, which strangers share, nobody ends what another may be waiting for.
    """

    def __init__(self, engines: Fleet, keeper: Keeper, suggested: Callable[[], str], public: bool = False) -> None:
        self.engines, self.keeper, self.public = engines, keeper, public
        self._suggested = suggested

    async def shown(self) -> dict[str, Any]:
        """All models, and the machine that they are to run on."""
        machine = self.keeper.machine
        about = {"words": machine.words, "gpu": bool(machine.gpu), "room": round(self.keeper.room, 1), "shared": self.public}
        return {"models": [self.show(card) for card in self.keeper.cards.values()], "machine": about}

    def show(self, card: Card) -> dict[str, Any]:
        """One model."""
        name = card.info.name
        progress = msgspec.to_builtins(self.engines.states()[name])
        return {
            **msgspec.to_builtins(next((info for info in self.engines.known if info.name == name), card.info)),
            "default": name == self.engines.default,
            "suggested": name == self._suggested(),
            "here": not card.missing(),
            "sources": [{"repo": s.repo, "licence": s.licence, "link": s.link, "gated": s.gated} for s in card.sources],
            "needs": msgspec.to_builtins(card.needs),
            "download": round(card.download * 1e9),
            "holds": round(self.keeper.held.get(name, 0), 2),
            "fit": msgspec.to_builtins(self.keeper.fit(name)),
            **{field: progress[field] for field in ("state", "stage", "done", "total", "rate", "message")},
        }

    def find(self, name: str) -> Card:
        """Raises `ApiError` 404."""
        cards = self.keeper.cards
        if name not in cards:
            there = ", ".join(cards)
            raise ApiError(404, "model_not_found", f"No model “{name}” has a card here. There are: {there}.", "name")
        return cards[name]

    def changeable(self, name: str) -> Card:
        """One that whoever asks may end or resize. Raises `ApiError` 404, and 403 on a public host."""
        card = self.find(name)
        if self.public:
            message = "Others use this server, too. What is not used makes room by itself."
            raise ApiError(403, "shared_server", message, "name")
        return card


def router(shelf: Shelf) -> APIRouter:
    """The routes over a shelf."""
    routes = APIRouter(prefix="/v1/voxrtc/models", tags=["models"])

    @routes.get("", responses=contract.answers(Shown))
    async def list_models() -> dict[str, Any]:
        return await shelf.shown()

    def change(verb: str, status: int, why_not: str, **told: Any) -> Callable[[Change], Change]:
        answers = contract.answers(OnShelf, status) | contract.fails(_404="No such model has a card here.", _409=why_not)
        by_json = [Depends(as_json)]
        return routes.post(f"/{{name}}/{verb}", status_code=status, dependencies=by_json, responses=answers, **told)

    @change("load", 202, "There is no room for it.", openapi_extra=EMPTY)
    async def load(name: str) -> dict[str, Any]:
        card = shelf.find(name)
        with _conflicts():
            await shelf.keeper.load(name)
        return shelf.show(card)

    @change("cancel", 200, "It is not being loaded.", openapi_extra=EMPTY)
    async def cancel(name: str) -> dict[str, Any]:
        card = shelf.changeable(name)
        with _conflicts():
            await shelf.engines.give_up(name)
        return shelf.show(card)

    @change("unload", 200, "Somebody is using it.", openapi_extra=EMPTY)
    async def unload(name: str) -> dict[str, Any]:
        card = shelf.changeable(name)
        with _conflicts():
            await shelf.engines.unload(name)
        return shelf.show(card)

    @change("replicas", 202, "It is not ready, or is one.")
    async def resize(name: str, wish: ReplicasWish) -> dict[str, Any]:
        card = shelf.changeable(name)
        try:
            with _conflicts():
                await shelf.engines.resize(name, wish.count)
        except (EngineLost, TimeoutError) as lost:
            raise ApiError(409, "model_not_ready", f"“{name}” is not ready. Load it first.", "name") from lost
        return shelf.show(card)

    return routes


@contextmanager
def _conflicts() -> Iterator[None]:
    """What is between a wish and a model's state is an `ApiError` 409."""
    try:
        yield
    except tuple(CONFLICTS) as conflict:
        raise ApiError(409, CONFLICTS[type(conflict)], str(conflict), "name") from conflict


class ReplicasWish(BaseModel):
    """How many replicas of a model there are to be."""

    count: int = Field(ge=1, le=MOST_REPLICAS)


def as_json(request: Request) -> None:
    """Refuse what a form of another site may have a browser send, whatever that says of its origin. Raises `ApiError` 415."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ApiError(415, "unsupported_media_type", "Send `Content-Type: application/json`, and `{}` as the body.")
