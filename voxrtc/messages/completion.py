"""To and from the chat model's process."""

from __future__ import annotations

from typing import Literal

import msgspec

from voxrtc.messages import Message
from voxrtc.messages.model import Progress, Watch


class ChatMessage(msgspec.Struct, frozen=True):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Complete(Message):
    """Write what the assistant says next, in at most `max_tokens`. `completion` is a fresh id."""

    completion: str
    messages: list[ChatMessage]
    max_tokens: int | None = None


class Abandon(Message):
    """Stop writing. Unknown and finished completions are ignored."""

    completion: str


class Delta(Message):
    """The next words of a completion."""

    completion: str
    text: str


class Completed(Message):
    """The completion is whole, or was `cut` at the tokens that it was to have. Nothing of it follows."""

    completion: str
    cut: bool = False


class NotCompleted(Message):
    """The completion failed. Nothing of it follows."""

    completion: str
    code: str  # busy | invalid_request | model_loading | model_failed | chat_error | chat_lost
    message: str


CompletionRequest = Watch | Complete | Abandon
CompletionReply = Progress | Delta | Completed | NotCompleted
