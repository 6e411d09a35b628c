"""On a real GPU: `make test-cuda`. Elsewhere these are skipped, and the same code runs on a pretended device."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from tests.engine.toy import INFO
from tests.speechlm.families import MODELS
from tests.waiting import eventually
from voxrtc.engine.attention import Layout, choose
from voxrtc.engine.kv_cache import PagedCache
from voxrtc.engine.loop import Engine
from voxrtc.engine.sdpa_attention import SdpaAttention
from voxrtc.engine.worker import Task, Worker
from voxrtc.messages.engine import Chunk, Ended, Failed, Generate, Sampling
from voxrtc.speechlm.base import HOST, CacheShape, Placement, SpeechLM, Utterance

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")]

GPU = torch.device("cuda", 0)
SHAPES = {  # heads of queries, of keys, and their width
    "orpheus": (24, 8, 128),
    "csm": (32, 8, 64),
    "cosyvoice2": (14, 2, 64),
    "step-audio-2-mini": (28, 4, 128),
    "lark": (4, 4, 64),
}
SLOTS = 6


@pytest.mark.parametrize("page_size", [16, 128])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_flashinfer_sees_what_torch_sees(shape: tuple[int, int, int], page_size: int) -> None:
    """Prompts, then steps of one token, some streams' prompts beside others' decode steps; bfloat16."""
    pytest.importorskip("flashinfer", reason="pip install -r requirements-cuda.txt")
    torch.manual_seed(0)
    heads, kv_heads, dim = shape
    of = CacheShape(1, heads, kv_heads, dim, 600)
    caches = [PagedCache(of, SLOTS, 240, page_size, GPU, torch.bfloat16, scratch=True) for _ in range(2)]
    backends = choose(caches[0], heads), SdpaAttention(caches[1])
    assert type(backends[0]).__name__ == "FlashInferAttention"
    done = [0] * SLOTS
    for step in range(40):
        slots = [slot for slot in range(SLOTS) if step % (slot + 1) == 0]
        counts = [1 if step % 8 or done[slot] == 0 else 30 + 7 * slot for slot in slots]
        seen = []
        qkv = [torch.randn(sum(counts), n, dim, device=GPU, dtype=torch.bfloat16) for n in (heads, kv_heads, kv_heads)]
        for cache, backend in zip(caches, backends, strict=True):
            for slot, count in zip(slots, counts, strict=True):
                cache.grow(slot, done[slot] + count)
            more = backend.width(len(slots)) - len(slots) if set(counts) == {1} else 0
            starts = [done[slot] for slot in slots]
            layout = Layout(slots + [SLOTS] * more, starts + [0] * more, (*counts, *[1] * more))
            filled = [torch.cat([x, x[:1].expand(more, -1, -1)]) for x in qkv]
            seen.append(backend.plan(layout).attend(0, *filled)[: sum(counts)].float())
        assert torch.allclose(*seen, atol=3e-2), step
        for slot, count in zip(slots, counts, strict=True):
            done[slot] += count


def first_step(model: SpeechLM) -> torch.Tensor:
    """Hidden state after a prompt, on the host."""
    worker, prompt, seen = Worker(model, slots=2), model.preprocess(Utterance("Yes.")), []
    worker.admit(0, prompt, Sampling(temperature=0.0), seed=0, step=0)
    sample = model.sample
    model.sample = lambda hidden, *rest: seen.append(hidden) or sample(hidden, *rest)  # type: ignore[method-assign]
    [result] = worker.launch([Task(0, prompt.known, prompt.length - prompt.known, samples=True)]).results()
    assert isinstance(result, tuple), result
    return seen[0].float().cpu()


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-3), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("name", MODELS)
def test_a_family_thinks_the_same_on_a_gpu(name: str, dtype: torch.dtype, near: float, tmp_path: Path) -> None:
    host, gpu = MODELS[name](tmp_path), MODELS[name](tmp_path, Placement(GPU, dtype))
    expected = first_step(host)
    assert (first_step(gpu) - expected).norm() <= near * expected.norm()
    codec = host.detokenizer
    torch.manual_seed(0)
    frames = torch.randn(24, 32) if not host.codebooks else torch.randint(0, 2, (24, host.codebooks))
    if not host.codebooks:
        frames = frames[:, : gpu.network.config.latent]  # type: ignore[attr-defined]
    alone = codec.decode([frames], [codec.new_state(1)], [True])[0]
    there = gpu.detokenizer.decode([frames.to(GPU)], [gpu.detokenizer.new_state(1)], [True])[0].cpu()
    assert torch.allclose(there, alone, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_an_engine_speaks_a_step_ahead(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Threads and streams as in the product: nobody fails, and everyone's sound is whole."""
    worker = Worker(MODELS[name](tmp_path, Placement(GPU, dtype)), slots=4)
    assert worker.lag == 1 and worker.model.device != HOST
    engine, replies = Engine(worker, INFO, executor=lambda what: ThreadPoolExecutor(1)), {str(i): [] for i in range(8)}
    engine.start()
    for i, got in replies.items():
        engine.submit(Generate(stream=i, text="Hello there. It is late.", accepted=time.monotonic()), got.append)
    eventually(lambda: all(got and isinstance(got[-1], Ended | Failed) for got in replies.values()), within=120)
    engine.stop()
    for got in replies.values():
        assert isinstance(got[-1], Ended), got[-1]
        samples = sum(len(reply.pcm) // 2 for reply in got if isinstance(reply, Chunk))
        codec = worker.model.detokenizer
        assert samples and samples % codec.samples_per_group == 0
