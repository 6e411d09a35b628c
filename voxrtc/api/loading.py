"""`/v1/voxrtc/models`: all models that have a card, how far each is, and routes that load and unload them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request

from voxrtc.api.errors import ApiError
from voxrtc.api.origin import foreign
from voxrtc.cards import Card
from voxrtc.engine.fleet import Fleet, InUse


class Shelf:
    """The cards of the engines' models, and how far each is."""

    def __init__(self, engines: Fleet, cards: Sequence[Card], suggested: Callable[[], str]) -> None:
        self._engines, self._suggested = engines, suggested
        self._cards = {card.info.name: card for card in cards}

    async def shown(self) -> dict[str, Any]:
        """All models."""
        return {"models": [self.show(card) for card in self._cards.values()]}

    def show(self, card: Card) -> dict[str, Any]:
        """One model."""
        name = card.info.name
        progress = msgspec.to_builtins(self._engines.states()[name])
        return {
            **msgspec.to_builtins(card.info),
            "default": name == self._engines.default,
            "suggested": name == self._suggested(),
            "here": not card.missing(),
            "sources": [{"repo": s.repo, "licence": s.licence, "link": s.link, "gated": s.gated} for s in card.sources],
            "needs": msgspec.to_builtins(card.needs),
            **{field: progress[field] for field in ("state", "stage", "done", "total", "message")},
        }

    def find(self, name: str) -> Card:
        """Raises `ApiError` 404."""
        if name not in self._cards:
            there = ", ".join(self._cards)
            raise ApiError(404, "model_not_found", f"No model “{name}” has a card here. There are: {there}.", "name")
        return self._cards[name]


def router(engines: Fleet, shelf: Shelf) -> APIRouter:
    """The routes over the engines; `shelf` has the cards of their models."""
    routes = APIRouter(prefix="/v1/voxrtc/models", tags=["models"])

    @routes.get("")
    async def list_models() -> dict[str, Any]:
        return await shelf.shown()

    @routes.post("/{name}/load", status_code=202, dependencies=[Depends(of_our_own_page)])
    async def load(name: str) -> dict[str, Any]:
        card = shelf.find(name)
        await engines.load(name)
        return shelf.show(card)

    @routes.post("/{name}/unload", dependencies=[Depends(of_our_own_page)])
    async def unload(name: str) -> dict[str, Any]:
        card = shelf.find(name)
        try:
            await engines.unload(name)
        except InUse as used:
            raise ApiError(409, "model_in_use", str(used), "name") from used
        return shelf.show(card)

    return routes


def of_our_own_page(request: Request) -> None:
    """Refuse what another site's page may have a browser send. Raises `ApiError` 403 or 415.

    Without leave a browser sends no JSON to another site, too.
    """
    if origin := foreign(request.headers):
        raise ApiError(403, "cross_origin", f"Pages of {origin} may not change what this server does.")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ApiError(415, "unsupported_media_type", "Send `Content-Type: application/json`, and `{}` as the body.")
