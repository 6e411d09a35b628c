"""What is answered: by any chat endpoint with OpenAI's `POST …/chat/completions`, as it streams it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal, Protocol

import httpx
import msgspec

from voxrtc.chat.clauses import Clauses

WITHIN = httpx.Timeout(30.0, connect=5.0)  # seconds; the first for each word


class Said(msgspec.Struct, frozen=True):
    """A message of the conversation, as the endpoint wants it."""

    role: Literal["system", "user", "assistant"]
    content: str


class ReplyFailed(Exception):
    """The endpoint gave no answer, or broke off. For the person to read."""


async def in_clauses(deltas: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    """The pieces that a voice can begin to speak, as soon as each is whole. Raises `ReplyFailed` when there is not a word."""
    clauses, empty = Clauses(), True
    async with aclosing(deltas):
        async for delta in deltas:
            for piece in clauses.add(delta):
                empty = False
                yield piece
    if rest := clauses.rest():
        yield rest
    elif empty:
        raise ReplyFailed("The chat endpoint answered without a word.")


class Replier(Protocol):
    """Who answers."""

    def reply(self, conversation: list[Said]) -> AsyncGenerator[str, None]:
        """The next message of the assistant, bit by bit. Raises `ReplyFailed`."""


class ChatEndpoint:
    """`url` as OpenAI's clients know it, up to `/v1`; `key` may be empty."""

    def __init__(self, url: str, model: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._model, self._address = model, f"{url.rstrip('/')}/chat/completions"
        self._http = httpx.AsyncClient(headers=headers, timeout=WITHIN)

    async def reply(self, conversation: list[Said]) -> AsyncGenerator[str, None]:
        wish = {"model": self._model, "messages": msgspec.to_builtins(conversation), "stream": True}
        try:
            async with self._http.stream("POST", self._address, json=wish) as response:
                if response.status_code != httpx.codes.OK:
                    raise ReplyFailed(f"The chat endpoint refused ({response.status_code}): {_why(await response.aread())}")
                async with aclosing(response.aiter_lines()) as lines:  # type: ignore[type-var]
                    async for line in lines:
                        if text := _delta(line):
                            yield text
        except httpx.HTTPError as error:
            raise ReplyFailed(
                f"The chat endpoint does not answer ({type(error).__name__}). Is {self._address} right?"
            ) from error

    async def close(self) -> None:
        await self._http.aclose()


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    """The part of a `chat.completion.chunk` that is spoken. Some endpoints end with one without choices."""

    choices: list[_Choice] = []


def _delta(line: str) -> str:
    """The text in a line of the event stream. Raises `ReplyFailed`."""
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return ""
    try:
        chunk = msgspec.json.decode(data, type=_Chunk)
    except msgspec.DecodeError as error:
        raise ReplyFailed(f"The chat endpoint sent no chat.completion.chunk ({error}).") from error
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


class _Error(msgspec.Struct):
    message: str


class _Refusal(msgspec.Struct):
    error: _Error


def _why(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message
    except msgspec.DecodeError:
        return body.decode(errors="replace")[:200] or "it says nothing more"
