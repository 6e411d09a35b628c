"""Replies by any chat endpoint with OpenAI's `POST …/chat/completions`, as it streams them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx
import msgspec

from voxrtc.chat.events import new_id
from voxrtc.chat.reply import Ask, NamedTool, ReplyCut, ReplyFailed, Said, Tool, ToolCall, ToolResult

WITHIN = httpx.Timeout(30.0, connect=5.0)  # seconds; the first for each word


class ChatEndpoint:
    """`url` as OpenAI's clients know it, up to `/v1`; `key` may be empty."""

    there = True

    def __init__(self, url: str, model: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._model, self._address = model, f"{url.rstrip('/')}/chat/completions"
        self._http = httpx.AsyncClient(headers=headers, timeout=WITHIN, follow_redirects=False)  # the key is for nobody else

    async def reply(self, ask: Ask) -> AsyncGenerator[str | ToolCall, None]:
        wish = {"model": self._model, "stream": True, **_wish(ask)}
        reading = _Reading()
        try:
            async with self._http.stream("POST", self._address, json=wish) as response:
                if response.status_code != httpx.codes.OK:
                    raise ReplyFailed(f"The chat endpoint refused ({response.status_code}): {_why(await response.aread())}")
                async with aclosing(response.aiter_lines()) as lines:  # type: ignore[type-var]
                    async for line in lines:
                        if text := reading.add(line):
                            yield text
        except httpx.HTTPError as error:
            raise ReplyFailed(
                f"The chat endpoint does not answer ({type(error).__name__}). Is {self._address} right?"
            ) from error
        for call in reading.calls():
            yield call
        if reading.cut:
            raise ReplyCut

    async def close(self) -> None:
        await self._http.aclose()


# --- what is asked ---


def _wish(ask: Ask) -> dict[str, Any]:
    """The part of the request that differs; what is not wanted is left out, since not every endpoint knows it."""
    wish: dict[str, Any] = {"messages": _messages(ask.messages)}
    if ask.tools:
        choice = ask.tool_choice
        wish["tools"] = [_tool(tool) for tool in ask.tools]
        named = {"type": "function", "function": {"name": choice.name}} if isinstance(choice, NamedTool) else choice
        wish |= {"tool_choice": named} if choice != "auto" else {}
    if ask.max_tokens is not None:
        wish["max_tokens"] = ask.max_tokens
    return wish


def _messages(messages: list[Said | ToolCall | ToolResult]) -> list[dict[str, Any]]:
    """Calls that follow each other are one message of the assistant: their results have to come after all of them."""
    wire: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case Said(role=role, content=content):
                wire.append({"role": role, "content": content})
            case ToolResult(id=id, output=output):
                wire.append({"role": "tool", "tool_call_id": id, "content": output})
            case ToolCall(id=id, name=name, arguments=arguments):
                if not wire or "tool_calls" not in wire[-1]:
                    wire.append({"role": "assistant", "content": None, "tool_calls": []})
                function = {"name": name, "arguments": arguments}
                wire[-1]["tool_calls"].append({"id": id, "type": "function", "function": function})
    return wire


def _tool(tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": {name: each for name, each in msgspec.to_builtins(tool).items() if each}}


# --- what comes back ---


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    """Bits of a call, which is found again by its index."""

    index: int = 0
    id: str | None = None
    function: _Function = msgspec.field(default_factory=_Function)


class _Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    """The part of a `chat.completion.chunk` that matters. Some endpoints end with one without choices."""

    choices: list[_Choice] = []


class _Reading:
    """The lines of one event stream: text at once, calls when all of it has come."""

    def __init__(self) -> None:
        self.cut = False
        self._calls: dict[int, list[str]] = {}  # id, name and arguments so far

    def add(self, line: str) -> str:
        """The text in a line. Raises `ReplyFailed`."""
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            return ""
        try:
            chunk = msgspec.json.decode(data, type=_Chunk)
        except msgspec.DecodeError as error:
            raise ReplyFailed(f"The chat endpoint sent no chat.completion.chunk ({error}).") from error
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.cut = self.cut or choice.finish_reason == "length"
        for bit in choice.delta.tool_calls or ():
            call = self._calls.setdefault(bit.index, ["", "", ""])
            call[0] = bit.id or call[0]
            call[1] = bit.function.name or call[1]
            call[2] += bit.function.arguments or ""
        return choice.delta.content or ""

    def calls(self) -> list[ToolCall]:
        """In the order of the endpoint. One that was cut off is none."""
        calls = [] if self.cut else [self._calls[index] for index in sorted(self._calls)]
        return [ToolCall(id or new_id("call"), name, arguments or "{}") for id, name, arguments in calls if name]


class _Error(msgspec.Struct):
    message: str


class _Refusal(msgspec.Struct):
    error: _Error


def _why(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message
    except msgspec.DecodeError:
        return body.decode(errors="replace")[:200] or "it says nothing more"
