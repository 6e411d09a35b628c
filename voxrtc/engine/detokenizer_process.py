"""A detokenizer in a process of its own: `process_stage` starts it, and is at the other end of its line.

`python -m voxrtc.engine.detokenizer_process --line FD`; settings come from the environment. Of the model only the detokenizer
is loaded, on its own device. The process ends with the engine's.
"""

from __future__ import annotations

import argparse
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from voxrtc import logs
from voxrtc.cards import CardError
from voxrtc.engine.device import DeviceError, chosen_sound
from voxrtc.engine.line import Line
from voxrtc.engine.memory import held
from voxrtc.engine.sound_stage import Chunk, LocalStage
from voxrtc.lifeline import die_with_parent
from voxrtc.messages import decode, encode
from voxrtc.messages.detokenizer import Array, Decode, Decoded, DetokenizerRequest, End, Part, Ready, Sound, Unfit
from voxrtc.settings import Settings
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import Detokenizer, Voice

log = logging.getLogger(__name__)


def unpacked(array: Array) -> Tensor:
    """The tensor, on the host."""
    return torch.from_numpy(np.frombuffer(array.data, array.kind).reshape(array.shape))


class Detokenizing:
    """Streams' states and voices, by the numbers that the other side gave them."""

    def __init__(self, detokenizer: Detokenizer, streams: int) -> None:
        """For up to so many `streams` at a time."""
        self._detokenizer, self._stage = detokenizer, LocalStage(detokenizer, streams)
        self.states: dict[int, Any] = {}
        self.voices: dict[int, Voice | Exception] = {}

    def decode(self, request: Decode) -> list[Sound]:
        """Samples of each part. What is wrong with one, or with its voice, harms no other. Raises if the device is dead."""
        for number in request.forget:
            self.voices.pop(number, None)
        for number, arrays in request.voices.items():
            self.voices[number] = self._voice(arrays)
        chunks = [self._chunk(part) for part in request.parts]
        whole = [chunk for chunk in chunks if isinstance(chunk, Chunk)]
        made = iter(self._stage.decode(whole) if whole else [])
        results = [next(made) if isinstance(chunk, Chunk) else chunk for chunk in chunks]
        if any(isinstance(result, Exception) for result in results):
            self._stage.check()
        return [_sound(result) for result in results]

    def end(self, stream: int) -> None:
        self.states.pop(stream, None)

    def _voice(self, arrays: list[Array]) -> Voice | Exception:
        try:
            return self._detokenizer.voice_in([unpacked(array) for array in arrays])
        except Exception as error:  # noqa: BLE001  it is told to those who are to have it
            return error

    def _chunk(self, part: Part) -> Chunk | Exception:
        if fresh := part.fresh:
            voice = None if fresh.voice is None else self.voices[fresh.voice]
            if isinstance(voice, Exception):
                return voice
            try:
                self.states[part.stream] = self._stage.begin(voice, int(fresh.seed))
            except Exception as error:  # noqa: BLE001  there may be no memory for it
                return error
        return Chunk(unpacked(part.frames), self.states[part.stream], part.final)


def _sound(result: Tensor | Exception) -> Sound:
    if isinstance(result, Tensor):
        return Sound(samples=memoryview(result.numpy().tobytes()))
    log.error("a stream failed", exc_info=result)
    return Sound(error=f"{type(result).__name__}: {result}")


def serve(line: Line, detokenizing: Detokenizing, memory: Callable[[], float]) -> None:
    """Answer, until the other end is closed. `memory` are the GB that this takes."""
    line.send(encode(Ready(memory=memory())))
    while True:
        try:
            request: DetokenizerRequest = decode(line.receive(), DetokenizerRequest)
        except (EOFError, ConnectionError):
            return
        match request:
            case Decode():
                line.send(encode(Decoded(sounds=detokenizing.decode(request), memory=memory())))
            case End(stream=stream):
                detokenizing.end(stream)


def main() -> None:
    """Load the detokenizer of the settings' model and serve it."""
    parser = argparse.ArgumentParser(description="An engine's detokenizer as a process of its own.")
    parser.add_argument("--line", type=int, required=True, help="file descriptor of a socket to the engine")
    line, settings = Line(socket.socket(fileno=parser.parse_args().line)), Settings()
    logs.configure("detokenizer", settings)
    die_with_parent()
    torch.set_num_threads(1)  # as the engine
    try:
        detokenizer = registry.load_detokenizer(settings.models, settings.model, chosen_sound(settings))
    except (CardError, DeviceError) as wrong:
        line.send(encode(Unfit(message=str(wrong))))
    except Exception as wrong:  # a model may fail in any way; it is told where somebody reads it
        log.exception("the detokenizer of %s failed", settings.model)
        line.send(encode(Unfit(message=str(wrong) or type(wrong).__name__)))
    else:
        serve(line, Detokenizing(detokenizer, settings.max_streams), partial(held, detokenizer.device))


if __name__ == "__main__":
    main()
