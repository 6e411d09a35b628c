"""A tiny SpeechLM with random weights over the real decoder block: what the engine's tests speak with."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

import torch
from torch import Tensor, nn

from voxrtc.engine.attention import Backend, choose
from voxrtc.engine.graphs import Recorder
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.engine.loop import Engine
from voxrtc.engine.sound_stage import SoundStage
from voxrtc.engine.worker import Worker
from voxrtc.messages.engine import EngineReply, Generate, Sampling
from voxrtc.messages.model import ModelInfo
from voxrtc.speechlm.base import (
    HOST,
    Batch,
    CacheShape,
    Detokenizer,
    Frames,
    InvalidRequest,
    Prompt,
    Sampler,
    SpeechLM,
    Utterance,
)
from voxrtc.speechlm.layers.decoder import Decoder, DecoderConfig, init_weights

INFO = ModelInfo(
    name="toy",
    title="Toy",
    description="",
    family="toy",
    languages=["en"],
    voices=["default"],
    licence="",
    sample_rate=1000,
    frame_rate=50.0,
)
SHAPE = DecoderConfig(layers=2, dim=32, heads=4, kv_heads=2, head_dim=8, ffn_dim=48, positions=128)


class ToyDetokenizer(Detokenizer):
    """Each frame is 20 samples of its first code / 64; two frames are held back until what follows is known."""

    sample_rate, samples_per_group, lookahead, min_chunk = 1000, 20, 2, 2

    def new_state(self, seed: int, voice: object = None) -> list[Tensor]:
        return []

    def decode(self, frames: list[Tensor], states: list[list[Tensor]], final: list[bool]) -> list[Tensor]:
        if any(int(f.max()) >= 63 for f in frames if len(f)):
            raise ValueError("code 63 is poison to this detokenizer")
        return [self._one(*one) for one in zip(frames, states, final, strict=True)]

    def _one(self, frames: Tensor, state: list[Tensor], final: bool) -> Tensor:
        state.extend(frames)
        ready = len(state) if final else max(0, len(state) - self.lookahead)
        out = [frame[0].float().div(64).repeat(self.samples_per_group) for frame in state[:ready]]
        del state[:ready]
        return torch.cat(out) if out else frames.new_empty(0, dtype=torch.float32)


class Toy(SpeechLM):
    """Bytes in, two codes a frame out, three frames a byte. “|” parts pieces; “!” is a prompt that poisons its hidden
    states, “?” one that the model cannot take, “#” one whose sound cannot be made."""

    cache = CacheShape.of(SHAPE)
    frame_rate, codebooks, voices = 50.0, 2, ("default",)
    defaults = Sampling(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0)

    def __init__(self, device: torch.device = HOST) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.decoder, self.bytes, self.codes = Decoder(SHAPE), nn.Embedding(256, 32), nn.Embedding(65, 32)
            self.heads = nn.ModuleList(nn.Linear(32, 63) for _ in range(2))
            for module in (self.decoder, self.bytes, self.codes, self.heads):
                init_weights(module, SHAPE.layers, std=0.5)
                module.requires_grad_(False).to(device)
        self.device = device
        self.detokenizer = ToyDetokenizer()

    def split(self, text: str) -> list[str]:
        if not text:
            raise InvalidRequest("There is nothing to say.")
        return text.split("|")

    def preprocess(self, utterance: Utterance) -> Prompt:
        data = torch.tensor(list(utterance.text.encode()))
        return Prompt(length=len(data), max_frames=min(100, 3 * len(data)), data=data)

    def new_states(self, slots: int) -> dict[str, Tensor]:
        def zeros(*width: int) -> Tensor:
            return torch.zeros(slots, *width, dtype=torch.long, device=self.device)

        return {"text": zeros(128), "length": zeros(), "frame": zeros(2), "made": zeros()}

    def admit(self, states: dict[str, Tensor], slot: int, prompt: Prompt) -> None:
        if ord("?") in prompt.data:
            raise RuntimeError("a prompt that does not fit")
        states["text"][slot, : prompt.length] = prompt.data
        states["length"][slot], states["made"][slot], states["frame"][slot] = prompt.length, 0, 64

    def forward(self, batch: Batch, states: dict[str, Tensor]) -> Tensor:
        rows = batch.rows
        text = states["text"][rows, batch.positions.clamp(max=127)]
        prompt = batch.positions < states["length"][rows]
        x = torch.where(prompt[:, None], self.bytes(text), self.codes(states["frame"][rows]).sum(1))
        x = torch.where((prompt & (text == ord("!")))[:, None], torch.nan, x)
        return self.decoder(x, batch.positions, batch.attention)[batch.ends]

    def sample(self, hidden: Tensor, slots: Tensor, states: dict[str, Tensor], sampler: Sampler) -> Frames:
        before = states["frame"][slots]
        recent = torch.where(before < 63, before, -1)
        frame = torch.stack([sampler(head(hidden), book, recent) for book, head in enumerate(self.heads)], 1)
        frame = torch.where((states["text"][slots, 0] == ord("#"))[:, None], 63, frame)
        states["frame"][slots], states["made"][slots] = frame, states["made"][slots] + 1
        return Frames(frame, states["made"][slots] >= 3 * states["length"][slots])


class Inline(Executor):
    """Runs a job where it is submitted, so that a test decides what happens when."""

    def submit(self, job, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future = Future()
        try:
            future.set_result(job(*args, **kwargs))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
        return future


class Bench:
    """An engine that is stepped by hand, and what it answered."""

    def __init__(
        self,
        slots: int = 4,
        pages: int | None = None,
        page_size: int = 8,
        model: SpeechLM | None = None,
        backend: Callable[[PagedCache, int], Backend] = choose,
        recorder: Recorder | None = None,
        sound: SoundStage | None = None,
        **engine,
    ) -> None:  # type: ignore[no-untyped-def]
        self.now = 0.0
        self.worker = Worker(model or Toy(), slots, pages, page_size, lambda: self.now, backend, recorder, sound)
        self.engine = Engine(self.worker, INFO, clock=lambda: self.now, executor=lambda name: Inline(), **engine)
        self.replies: dict[str, list[EngineReply]] = {}
        self.codes: dict[str, list[list[int]]] = {}
        self._record()

    def _record(self) -> None:
        sampled = self.engine._sampled

        def spy(stream, piece, frame, last):  # type: ignore[no-untyped-def]
            self.codes.setdefault(stream.id, []).append(frame.tolist())
            sampled(stream, piece, frame, last)

        self.engine._sampled = spy  # type: ignore[method-assign]

    def speak(self, stream: str, text: str, voice: str = "default", **settings) -> None:  # type: ignore[no-untyped-def]
        request = Generate(stream=stream, text=text, voice=voice, accepted=self.now, sampling=Sampling(**settings))
        self.send(request, stream)

    def send(self, request, stream: str) -> None:  # type: ignore[no-untyped-def]
        self.engine.submit(request, self.replies.setdefault(stream, []).append)

    def step(self) -> bool:
        self.now += 0.01
        return self.engine.run_once()

    def run(self, steps: int = 10_000) -> None:
        while steps and (self.step() or not self.engine._inbox.empty()):
            steps -= 1
        assert steps, "the engine does not come to rest"
        self.worker.cache.check_integrity()
