"""Who answers, in a sentence."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from voxrtc.api.replies import router
from voxrtc.messages.model import Progress
from voxrtc.settings import Settings


@pytest.mark.parametrize(
    ("settings", "progress", "state", "words"),
    [
        ({}, Progress(state="ready"), "ready", "smollm2-135m, a very small model"),
        ({}, Progress(state="loading", stage="reading"), "loading", "being loaded (reading)"),
        ({}, Progress(state="failed", message="Install it."), "failed", "not answered. Install it."),
        ({"chat_local": "none"}, Progress(state="loading"), "none", "--chat-url"),
        ({"chat_url": "http://somewhere/v1", "chat_model": "big"}, Progress(state="loading"), "ready", "come from big."),
    ],
)
def test_who_answers_is_told(settings: dict, progress: Progress, state: str, words: str) -> None:
    app = FastAPI()
    app.include_router(router(Settings(**settings), lambda: progress))
    told = TestClient(app).get("/v1/voxrtc/replies").json()
    assert told["state"] == state
    assert words in told["words"]
