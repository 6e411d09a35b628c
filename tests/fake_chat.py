"""A chat endpoint without a model, for tests: it streams what it is told to, word by word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from voxrtc.chat.reply import ReplyFailed, Said


class Answers:
    """A `Replier`. Each reply is the next of `texts`; `gate`, when set, is waited for before the second word."""

    def __init__(self, *texts: str, gate: asyncio.Event | None = None) -> None:
        self.texts, self.gate = list(texts), gate
        self.asked: list[list[Said]] = []

    async def reply(self, conversation: list[Said]) -> AsyncGenerator[str, None]:
        self.asked.append(conversation)
        if not self.texts:
            raise ReplyFailed("It is away.")
        for number, word in enumerate(self.texts.pop(0).split(" ")):
            if number == 4 and self.gate:
                await self.gate.wait()
            yield f" {word}" if number else word


def chat_app(*texts: str) -> FastAPI:
    """`/v1/chat/completions`, which gives the next of `texts`; 401 without the key "secret". `state.asked` keeps requests."""
    app = FastAPI()
    app.state.asked = []
    answers = list(texts)

    @app.post("/v1/chat/completions", response_model=None)
    async def complete(request: Request) -> JSONResponse | StreamingResponse:
        if request.headers.get("authorization") != "Bearer secret":
            return JSONResponse({"error": {"message": "Who are you?", "type": "invalid_request_error"}}, 401)
        app.state.asked.append(await request.json())
        return StreamingResponse(_stream(answers.pop(0)), media_type="text/event-stream")

    return app


async def _stream(text: str) -> AsyncIterator[str]:
    def line(choices: list[dict[str, Any]]) -> str:
        return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': choices})}\n\n"

    yield line([{"index": 0, "delta": {"role": "assistant", "content": ""}}])
    for number, word in enumerate(text.split(" ")):
        yield line([{"index": 0, "delta": {"content": f" {word}" if number else word}}])
    yield line([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    yield line([])
    yield "data: [DONE]\n\n"
