"""The chat model that comes along, as one who answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.chat.stage import Stage
from voxrtc.chat.embedded import EmbeddedReplier, speakable
from voxrtc.chat.reply import Ask, ReplyCut, ReplyFailed, Said, Tool, ToolCall, ToolResult
from voxrtc.llm.client import CompletionCut, CompletionFailed
from voxrtc.messages.completion import ChatMessage
from voxrtc.messages.model import Progress


class Client:
    """Writes these, then raises what is to be raised."""

    def __init__(self, *deltas: str, error: Exception | None = None) -> None:
        self.progress = Progress(state="ready")
        self.asked: list[tuple[list[ChatMessage], int | None]] = []
        self._deltas, self._error = deltas, error

    async def complete(self, messages: list[ChatMessage], max_tokens: int | None = None) -> AsyncGenerator[str, None]:
        self.asked.append((messages, max_tokens))
        for delta in self._deltas:
            yield delta
        if self._error:
            raise self._error


def replier(client: Client) -> EmbeddedReplier:
    return EmbeddedReplier(client)  # type: ignore[arg-type]


async def test_it_is_asked_what_was_said_and_nothing_of_tools() -> None:
    client = Client("Yes", ", of course.")
    said = [Said("system", "Be brief."), Said("user", "Hello."), ToolCall("1", "look", "{}"), ToolResult("1", "{}")]
    ask = Ask(said, [Tool("look")], max_tokens=7)
    assert [part async for part in replier(client).reply(ask)] == ["Yes", ", of course."]
    assert client.asked == [([ChatMessage("system", "Be brief."), ChatMessage("user", "Hello.")], 7)]


@pytest.mark.parametrize(("error", "told"), [(CompletionFailed("busy", "Too many."), ReplyFailed), (CompletionCut(), ReplyCut)])
async def test_what_went_wrong_is_told(error: Exception, told: type[Exception]) -> None:
    parts = []
    with pytest.raises(told):
        async for part in replier(Client("Well", error=error)).reply(Ask([Said("user", "Hello.")])):
            parts.append(part)
    assert parts == ["Well"]


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("**Sure!** Here's `one`:\n* A boat 🚤", "Sure! Here's one:  A boat "),
        ("It costs $5 – or 4.50 € ☀️", "It costs $5 – or 4.50 € "),
        ("naïve, 日本", "naïve, 日本"),
    ],
)
def test_what_a_voice_would_stumble_over_is_left_out(written: str, spoken: str) -> None:
    assert speakable(written) == spoken


def test_one_that_cannot_be_loaded_is_not_there() -> None:
    client = Client()
    assert replier(client).there
    client.progress = Progress(state="failed", message="no memory")
    assert not replier(client).there


async def test_what_is_said_is_answered() -> None:
    client = Client("Good", " evening", ", my friend. How *are* you?")
    async with Stage(replier=replier(client)) as stage:
        stage.say("Hello.")
        await stage.event("output_audio_buffer.stopped")
    assert next(request.text for request in stage.generated()).startswith("Good evening")
    (done,) = stage.all("response.done")
    assert done["response"]["output"][0]["content"][0]["transcript"] == "Good evening, my friend. How are you?"
