"""Answers of the chat model that comes along, in a process of its own (`voxrtc.llm`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from voxrtc.chat.reply import Ask, ReplyCut, ReplyFailed, Said, ToolCall
from voxrtc.llm.client import CompletionClient, CompletionCut, CompletionFailed
from voxrtc.messages.completion import ChatMessage

MARKS = str.maketrans({**dict.fromkeys("*#`_~|", ""), "\n": " ", "\t": " "})


class EmbeddedReplier:
    """`reply.Replier`. It is far too small for tools: they are ignored, and so is what came of them."""

    def __init__(self, client: CompletionClient) -> None:
        self._client = client

    async def reply(self, ask: Ask) -> AsyncGenerator[str | ToolCall, None]:
        messages = [ChatMessage(said.role, said.content) for said in ask.messages if isinstance(said, Said)]
        try:
            async with aclosing(self._client.complete(messages, ask.max_tokens)) as deltas:
                async for delta in deltas:
                    yield speakable(delta)
        except CompletionCut as cut:
            raise ReplyCut from cut
        except CompletionFailed as failed:
            raise ReplyFailed(str(failed)) from failed

    @property
    def there(self) -> bool:
        """Whether there is a model, or will be."""
        return self._client.progress.state != "failed"

    async def close(self) -> None:
        """Let the process go."""
        await self._client.close()


def speakable(text: str) -> str:
    """Without the marks of Markdown and without pictures, which a voice would read out or stumble over."""
    return "".join(letter for letter in text.translate(MARKS) if not _is_picture(letter))


def _is_picture(letter: str) -> bool:
    return ord(letter) >= 0x1F000 or 0x2600 <= ord(letter) < 0x2800 or letter in "\u200d\ufe0f"
