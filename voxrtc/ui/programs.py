"""What programs may call: `speak` and `models`, under "Use via API", by `gradio_client` and as tools of an MCP host.

Gradio only passes them on; the sound is made as for any listener over HTTP, and no longer than its caller is there.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import gradio as gr
import numpy as np
from fastapi import Request

from voxrtc.messages.model import ModelInfo

LOOK_EVERY = 0.25  # seconds: how soon it is noticed that a caller left
_PROGRESS = gr.Progress()  # as a default, by which Gradio knows that it is wanted


class Say(Protocol):
    """Text to sound for somebody at this address: `(Hz, PCM16)`. Raises `ValueError` with what is wrong."""

    def __call__(self, text: str, model: str, voice: str, address: str) -> Awaitable[tuple[int, bytes]]: ...


def offer(page: gr.Blocks, say: Say, ready: Callable[[], Awaitable[list[ModelInfo]]]) -> None:
    """Add both to the page, which shows nothing of them. Call it inside its `with`."""

    async def speak(
        text: str, model: str, voice: str, request: gr.Request, progress: gr.Progress = _PROGRESS
    ) -> tuple[int, np.ndarray]:
        work = asyncio.ensure_future(say(text, model, voice, request.client.host))
        left = asyncio.ensure_future(_left(page, request, progress))
        try:
            await asyncio.wait([work, left], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                left.result()
                raise gr.Error("Its caller left.", print_exception=False)
            rate, pcm = work.result()
        except ValueError as wrong:
            raise gr.Error(str(wrong), print_exception=False) from wrong
        finally:
            for task in (work, left):
                task.cancel()
            await asyncio.gather(work, left, return_exceptions=True)
        return rate, np.frombuffer(pcm, "<i2")

    async def models() -> list[dict[str, Any]]:
        return [{field: getattr(model, field) for field in TOLD} for model in await ready()]

    speak.__doc__, models.__doc__ = SPEAK, MODELS
    with gr.Group(visible=False):
        text, model, voice = _text(None, "Text"), _text("", "Model"), _text("default", "Voice")
        audio, found = gr.Audio(label="Speech", format="wav"), gr.JSON(label="Models")
        # Past Gradio's queue, or, by its own client, not one after another there: the engine has its own door
        direct: dict[str, Any] = {"queue": False, "concurrency_limit": None}
        gr.Button("Speak").click(speak, [text, model, voice], audio, api_name="speak", **direct)
        gr.Button("Models").click(models, None, found, api_name="models", **direct)


def _text(value: str | None, label: str) -> gr.Textbox:
    """A component that takes no file: any of Gradio's does, also by an address, which it would fetch and keep."""

    async def refuse(url_or_file_path: str | Path | None) -> str | None:
        raise gr.Error("This is no text.", print_exception=False)

    box = gr.Textbox(value, label=label)  # a class of our own would have Gradio write its stubs beside this file
    box.async_move_resource_to_block_cache = refuse  # type: ignore[method-assign]
    return box


TOLD = ("name", "title", "description", "languages", "voices", "licence")
SPEAK = """Speak a text with a speech language model. Returns a WAV file.

Args:
    text (str): What to say, up to 10,000 characters.
    model (str): A model's name, as `models` gives it; empty: the server's default.
    voice (str): One of that model's voices; "default" is there always.
"""
MODELS = """The speech models that are ready, each with its name, title, languages and voices."""


async def _left(page: gr.Blocks, request: gr.Request | Request, progress: gr.Progress) -> None:
    """Returns when the caller is gone.

    A client of Gradio's asks in one request and listens in another. Whether that one is there only Gradio's queue knows, and
    looks when it has something to tell: hence the progress. Others ask and wait in the same request; an MCP host's comes
    without Gradio's wrapper.
    """
    session, asked = (request.session_hash, request.request) if isinstance(request, gr.Request) else (None, request)
    for look in itertools.count(1):
        await asyncio.sleep(LOOK_EVERY)
        progress((round(look * LOOK_EVERY), None), desc="Speaking", unit="s")
        jobs = [job for jobs in page._queue.active_jobs for job in jobs or () if job.session_hash == session]
        if session and jobs:
            if not any(job.alive for job in jobs):
                return
        elif asked is not None and await asked.is_disconnected():
            return
