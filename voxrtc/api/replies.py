"""`/v1/voxrtc/replies`: who answers what people say, in a sentence for the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict

from fastapi import APIRouter

from voxrtc.api import contract
from voxrtc.messages.model import Progress
from voxrtc.settings import Settings

ENDPOINT = "any OpenAI-compatible endpoint with --chat-url."
BETTER, SOME = f"For better ones give {ENDPOINT}", f"For answers give {ENDPOINT}"


class Who(TypedDict):
    """`words` say who answers, or why nobody does and what to do."""

    model: str
    state: Literal["loading", "ready", "failed", "unloaded", "none"]
    words: str


def router(settings: Settings, progress: Callable[[], Progress]) -> APIRouter:
    """The route; `progress` is how far the chat model on this machine is, where it is that which answers."""
    routes = APIRouter(prefix="/v1/voxrtc/replies", tags=["models"])

    @routes.get("", responses=contract.answers(Who))
    async def who() -> dict[str, str]:
        if settings.embedded:
            now = progress()
            return {"model": settings.chat_local, "state": now.state, "words": _words(settings.chat_local, now)}
        if settings.chat_url:
            who = settings.chat_model or "the chat endpoint"
            return {"model": settings.chat_model, "state": "ready", "words": f"Answers come from {who}."}
        return {"model": "", "state": "none", "words": f"What you say is not answered. {SOME}"}

    return routes


def _words(model: str, progress: Progress) -> str:
    if progress.state == "ready":
        return f"Answers come from {model}, a very small model: do not trust them. {BETTER}"
    if progress.state == "loading":
        return f"The small model that answers is being loaded ({progress.words}) …"
    return f"What you say is not answered. {progress.message}"
