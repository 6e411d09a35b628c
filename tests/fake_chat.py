"""A chat endpoint without a model, for tests: it streams what it is told to, word by word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from voxrtc.chat.reply import Ask, ReplyCut, ReplyFailed, Said, ToolCall, ToolResult


class Answers:
    """A `Replier`. Each reply is the next of `texts`, or a call; `gate`, when set, is waited for before the fifth word."""

    def __init__(self, *texts: str | ToolCall, gate: asyncio.Event | None = None) -> None:
        self.texts, self.gate = list(texts), gate
        self.asks: list[Ask] = []

    @property
    def asked(self) -> list[list[Said | ToolCall | ToolResult]]:
        """The conversation of each ask."""
        return [ask.messages for ask in self.asks]

    async def reply(self, ask: Ask) -> AsyncGenerator[str | ToolCall, None]:
        self.asks.append(ask)
        if not self.texts:
            raise ReplyFailed("It is away.")
        answer = self.texts.pop(0)
        if isinstance(answer, ToolCall):
            yield answer
            return
        for number, word in enumerate(answer.split(" ")):
            if number == 4 and self.gate:
                await self.gate.wait()
            if number == ask.max_tokens:
                raise ReplyCut
            yield f" {word}" if number else word


def chat_app(*answers: str | ToolCall) -> FastAPI:
    """`/v1/chat/completions`, which gives the next of `answers`; 401 without the key "secret". `state.asked` keeps requests,
    `state.answers` what is left.

    With `max_tokens`, so many words of it.
    """
    app = FastAPI()
    app.state.asked = []
    app.state.answers = list(answers)

    @app.post("/v1/chat/completions", response_model=None)
    async def complete(request: Request) -> JSONResponse | StreamingResponse:
        if request.headers.get("authorization") != "Bearer secret":
            return JSONResponse({"error": {"message": "Who are you?", "type": "invalid_request_error"}}, 401)
        asked = await request.json()
        app.state.asked.append(asked)
        return StreamingResponse(_stream(app.state.answers.pop(0), asked.get("max_tokens")), media_type="text/event-stream")

    return app


async def _stream(answer: str | ToolCall, most: int | None) -> AsyncIterator[str]:
    def line(choices: list[dict[str, Any]]) -> str:
        return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': choices})}\n\n"

    yield line([{"index": 0, "delta": {"role": "assistant", "content": ""}}])
    for delta in _call(answer) if isinstance(answer, ToolCall) else _words(answer)[:most]:
        yield line([{"index": 0, "delta": delta}])
    cut = isinstance(answer, str) and most is not None and most < len(_words(answer))
    yield line([{"index": 0, "delta": {}, "finish_reason": "length" if cut else "stop"}])
    yield line([])
    yield "data: [DONE]\n\n"


def _words(text: str) -> list[dict[str, Any]]:
    return [{"content": f" {word}" if number else word} for number, word in enumerate(text.split(" "))]


def _call(call: ToolCall) -> list[dict[str, Any]]:
    """As OpenAI streams one: its name first, then its arguments bit by bit."""
    first = {"index": 0, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    return [{"tool_calls": [first]}] + [
        {"tool_calls": [{"index": 0, "function": {"arguments": letter}}]} for letter in call.arguments
    ]
