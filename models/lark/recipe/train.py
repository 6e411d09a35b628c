"""Train Lark's network on tokens.pt. Stops by the clock; a checkpoint every three minutes, from which it resumes.

    python train.py --work build/lark --minutes 90

What one frame learns: `advance`, pitch and energy on the first frame of each phoneme and on a third of the others;
the units on first frames only, since the engine holds them until the pointer moves. Past codes are corrupted now and
then, because the model will read its own. Half of the batches see the whole sentence as a prefix (how it is served),
half only the window around the pointer (text that is still being written).
"""

import argparse
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import tokens
import torch
import torch.nn.functional as F
from torch import Tensor

from voxrtc.speechlm.lark.network import LarkConfig, LarkNetwork

SEED = 0
LOSS_WEIGHTS = (1.0, 1.0, 0.7, 0.5, 0.5, 0.7, 0.5)
UNITS = range(1, 5)  # codebooks that are chosen once a phoneme
CORRUPTION, OTHER_FRAMES = 0.06, 0.3
FRAMES_PER_BATCH, POOL = 2000, 400
JOINED, JOINED_FRAMES, JOINED_PHONEMES = 0.15, 600, 400
MUON_RATE, ADAM_RATE, WARM_UP = 0.02, 3e-3, 60
EMA = 0.998
VALIDATION = 64
CHECKPOINT_EVERY = 180.0  # s


class Batch:
    """B utterances, right-padded to L phonemes (-1) and T frames."""

    def __init__(self, utterances: list[tokens.Utterance], start: Tensor, corruption: float = 0.0):
        size, phonemes, frames = len(utterances), max(len(u.ids) for u in utterances), max(map(len, utterances))
        self.ids = torch.full((size, phonemes), -1)
        self.codes = torch.zeros(size, frames, len(start), dtype=torch.long)
        self.pointer, self.elapsed = torch.zeros(2, size, frames, dtype=torch.long)
        self.phonemes = torch.tensor([len(u.ids) for u in utterances])
        self.frames = torch.tensor([len(u) for u in utterances])
        for row, u in enumerate(utterances):
            self.ids[row, : len(u.ids)] = u.ids
            self.codes[row, : len(u)], self.pointer[row, : len(u)], self.elapsed[row, : len(u)] = u.fields()[1:]
        self.real = torch.arange(frames) < self.frames[:, None]
        self.previous = torch.cat([start.expand(size, 1, -1), self.codes[:, :-1]], 1)
        if corruption:
            self.previous = corrupted(self.previous, start, corruption)


def corrupted(previous: Tensor, sizes: Tensor, share: float) -> Tensor:
    """Spoil a share of the codes, and of whole frames: half at random, half a frame late. `advance` stays as it was."""
    spoil = (torch.rand(previous.shape) < share) | (torch.rand(*previous.shape[:2], 1) < share)
    spoil[:, :, 0] = False
    spoil[:, :2] = False
    noise = (torch.rand(previous.shape) * sizes).long()
    late = previous.roll(1, 1)
    return torch.where(spoil, torch.where(torch.rand(previous.shape) < 0.5, noise, late), previous)


class BatchedCausal:
    """Causal attention as two batched products. For short sequences on a CPU its backward pass is three times as fast
    as that of torch's fused kernel.
    """

    def __init__(self, length: int, dtype: torch.dtype):
        self.mask = torch.full((length, length), -torch.inf, dtype=dtype).triu(1)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """All of shape [B, T, heads, head_dim]."""
        size, length, heads, width = q.shape
        q, k, v = (x.to(self.mask.dtype).transpose(1, 2).reshape(-1, length, width) for x in (q, k, v))
        scores = torch.baddbmm(self.mask.expand(len(q), -1, -1), q, k.mT, alpha=width**-0.5)
        return (scores.softmax(-1) @ v).view(size, heads, length, width).transpose(1, 2)


def hidden_states(network: LarkNetwork, batch: Batch, prefix: bool) -> Tensor:
    """Trunk outputs of all frames, [B, T, dim]."""
    windows = network.windows(batch.ids, batch.pointer)
    x = network.frame_inputs(batch.previous, windows, batch.elapsed)
    frames, dim = x.shape[1:]
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    if not prefix:
        return network.trunk(x, torch.arange(frames), BatchedCausal(frames, dtype))
    x = torch.cat([network.prompt_inputs(batch.ids.clamp(min=0)), x], 1)
    # Close the gap between a short prompt and its frames, so that padding stands only at the end, out of causal sight.
    longest, total = batch.ids.shape[1], x.shape[1]
    at = torch.arange(total)
    gap = longest - batch.phonemes[:, None]
    source = torch.where(at < batch.phonemes[:, None], at, (at + gap).clamp(max=total - 1))
    x = x.gather(1, source[..., None].expand(-1, -1, dim))
    hidden = network.trunk(x, at, BatchedCausal(total, dtype))
    back = batch.phonemes[:, None] + torch.arange(frames)
    return hidden.gather(1, back[..., None].expand(-1, -1, dim))


def losses(network: LarkNetwork, batch: Batch, prefix: bool, every_frame: bool = False) -> tuple[Tensor, Tensor]:
    """Cross entropy and accuracy of each codebook, [K] each; the units' are summed over first frames only."""
    learned = batch.real & ((batch.elapsed == 0) | (torch.rand(batch.elapsed.shape) < OTHER_FRAMES) | every_frame)
    z, target = hidden_states(network, batch, prefix)[learned], batch.codes[learned]
    first = (batch.elapsed[learned] == 0).nonzero()[:, 0]
    entropies, accuracies = [], []
    for book in range(len(LOSS_WEIGHTS)):
        wanted = target[:, book]
        part, z_part = (wanted[first], z[first]) if book in UNITS else (wanted, z)
        scores = network.logits(z_part, book).float()
        entropies.append(F.cross_entropy(scores, part))
        accuracies.append((scores.detach().argmax(-1) == part).float().mean())
        if book < len(LOSS_WEIGHTS) - 1:
            z = network.choose(z, book, wanted)
    return torch.stack(entropies), torch.stack(accuracies)


def joined(order: list[int], corpus: list[tokens.Utterance], rng: random.Random) -> Iterator[tokens.Utterance]:
    """Utterances in this order, some of them joined with their followers up to 15 s."""
    at = 0
    while at < len(order):
        group = [corpus[order[at]]]
        wanted = rng.choice((2, 3, 4)) if rng.random() < JOINED else 1
        while len(group) < wanted and at + len(group) < len(order):
            following = [*group, corpus[order[at + len(group)]]]
            if sum(map(len, following)) > JOINED_FRAMES or sum(len(u.ids) for u in following) > JOINED_PHONEMES:
                break
            group = following
        at += len(group)
        yield tokens.join(group) if len(group) > 1 else group[0]


def batches(corpus: list[tokens.Utterance], rng: random.Random) -> Iterator[list[tokens.Utterance]]:
    """For ever: batches of about FRAMES_PER_BATCH frames and of like lengths."""
    while True:
        epoch = list(joined(rng.sample(range(len(corpus)), len(corpus)), corpus, rng))
        for at in range(0, len(epoch), POOL):
            ready, current = [], []
            for u in sorted(epoch[at : at + POOL], key=len):
                if current and (len(current) + 1) * len(u) > FRAMES_PER_BATCH:
                    ready.append(current)
                    current = []
                current.append(u)
            ready.append(current)
            rng.shuffle(ready)
            yield from ready


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised by five Newton-Schulz steps (Jordan 2024; coefficients of Polar Express, 2505.16932).

    One parameter group a shape, so that the steps of like matrices run as one batched product.
    """

    COEFFICIENTS = (
        (4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012),
    )  # fmt: skip

    def __init__(self, matrices: list[Tensor], lr: float, precision: torch.dtype = torch.float32):
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for p in matrices:
            by_shape.setdefault(p.shape, []).append(p)
        super().__init__([{"params": same} for same in by_shape.values()], {"lr": lr})
        self.momentum, self.weight_decay, self.precision = 0.95, 0.01, precision

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            parameters = group["params"]
            rows, columns = parameters[0].shape
            directions = self.orthogonal(torch.stack([self.direction(p) for p in parameters]))
            torch._foreach_mul_(parameters, 1 - group["lr"] * self.weight_decay)
            size = group["lr"] * max(1.0, rows / columns) ** 0.5
            torch._foreach_add_(parameters, list(directions.unbind()), alpha=-size)

    def direction(self, p: Tensor) -> Tensor:
        """Nesterov momentum."""
        average = self.state[p].setdefault("average", torch.zeros_like(p))
        average.lerp_(p.grad, 1 - self.momentum)
        return p.grad.lerp(average, self.momentum)

    def orthogonal(self, updates: Tensor) -> Tensor:
        """Nearest semi-orthogonal matrices of [N, rows, columns]."""
        x = updates / (updates.norm(dim=(1, 2), keepdim=True) + 1e-7)
        x = x.to(self.precision)
        tall = x.shape[1] > x.shape[2]
        x = x.mT.contiguous() if tall else x
        for a, b, c in self.COEFFICIENTS:
            gram = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return (x.mT if tall else x).to(updates.dtype)


class Trainer:
    """Network, its average, optimizers and the time spent: all that a checkpoint holds."""

    def __init__(self, minutes: float, precision: torch.dtype):
        torch.manual_seed(SEED)
        self.precision = precision
        self.network, self.average = LarkNetwork(LarkConfig()), LarkNetwork(LarkConfig())
        self.average.load_state_dict(self.network.state_dict())
        matrices = [p for n, p in self.network.named_parameters() if p.dim() == 2 and is_hidden_matrix(n)]
        hidden = {id(p) for p in matrices}
        rest = [p for p in self.network.parameters() if id(p) not in hidden]
        adam = torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.01)
        self.optimizers = {Muon(matrices, MUON_RATE, precision): MUON_RATE, adam: ADAM_RATE}
        self.steps, self.spent, self.budget = 0, 0.0, minutes * 60

    def rate(self) -> float:
        """Share of the full learning rate: warm-up by steps; constant to 25% of the time, cosine down to 2%."""
        done = min(1.0, self.spent / self.budget)
        cosine = 0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * (done - 0.25) / 0.75))
        return min(1.0, (self.steps + 1) / WARM_UP) * (1.0 if done < 0.25 else cosine)

    def step(self, batch: Batch, prefix: bool) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", self.precision, enabled=self.precision != torch.float32):
            entropies, accuracies = losses(self.network, batch, prefix)
        share = self.rate()
        for optimizer, full in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = full * share
            optimizer.zero_grad()
        (entropies * torch.tensor(LOSS_WEIGHTS)).sum().backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 2.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.steps += 1
        self.update_average()
        return entropies.detach(), accuracies

    @torch.no_grad()
    def update_average(self) -> None:
        """Exponential average of the weights: what early checkpoints are worth is there, not in the raw weights."""
        share = 1 - min(EMA, self.steps / (self.steps + 10))
        torch._foreach_lerp_(list(self.average.parameters()), list(self.network.parameters()), share)

    @torch.no_grad()
    def validate(self, held: list[tokens.Utterance], prefix: bool) -> str:
        start, parts = self.average.start_codes(), []
        for at in range(0, len(held), 16):
            parts.append(torch.stack(losses(self.average, Batch(held[at : at + 16], start), prefix, every_frame=True)))
        entropies, accuracies = torch.stack(parts).mean(0)
        return f"entropy {table(entropies)} accuracy {table(accuracies)}"

    def save(self, path: Path) -> None:
        state = {
            "network": self.network.state_dict(), "average": self.average.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers], "steps": self.steps, "spent": self.spent,
        }  # fmt: skip
        part = path.with_suffix(".part")
        torch.save(state, part)
        part.rename(path)  # a reader never meets half a file

    def resume(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.steps, self.spent = state["steps"], state["spent"]


def is_hidden_matrix(name: str) -> bool:
    """Matrices between hidden states, for Muon; embeddings, input and output layers are AdamW's."""
    return name.startswith(("decoder.blocks.", "depth_mix."))


def table(values: Tensor) -> str:
    return " ".join(f"{v:.2f}" for v in values.tolist())


def train(trainer: Trainer, corpus: list[tokens.Utterance], work: Path) -> None:
    held, seen = corpus[:VALIDATION], corpus[VALIDATION:]
    rng = random.Random(SEED + trainer.steps)
    torch.manual_seed(SEED + trainer.steps)
    start, frames, running = trainer.network.start_codes(), 0, None
    began, resumed = time.monotonic(), trainer.spent
    saved = began
    for utterances in batches(seen, rng):
        batch = Batch(utterances, start, CORRUPTION)
        metrics = torch.stack(trainer.step(batch, prefix=rng.random() < 0.5))
        running = metrics if running is None else running.lerp(metrics, 0.02)
        frames += int(batch.frames.sum())
        trainer.spent = resumed + time.monotonic() - began
        if trainer.steps % 50 == 0:
            speed = frames / (time.monotonic() - began)
            print(f"{trainer.steps} {trainer.spent:.0f} s {speed:.0f} frames/s rate {trainer.rate():.2f} "
                  f"entropy {table(running[0])} accuracy {table(running[1])}", flush=True)  # fmt: skip
        if time.monotonic() - saved > CHECKPOINT_EVERY or trainer.spent > trainer.budget:
            trainer.save(work / "checkpoint.pt")
            saved = time.monotonic()
            print(f"saved; held out, with prefix: {trainer.validate(held, True)}", flush=True)
        if trainer.spent > trainer.budget:
            break
    print(f"held out, without prefix: {trainer.validate(held, False)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/lark"))
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bfloat16", action="store_true", help="half the time where the CPU has AVX-512 BF16")
    parser.add_argument("--compile", action="store_true", help="fuse small operations (wants a C++ compiler)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    precision = torch.bfloat16 if arguments.bfloat16 else torch.float32
    trainer, checkpoint = Trainer(arguments.minutes, precision), arguments.work / "checkpoint.pt"
    if arguments.compile:
        for block in trainer.network.decoder.blocks:
            block.compile(dynamic=True)
    if checkpoint.exists():
        trainer.resume(checkpoint)
    print(f"{sum(p.numel() for p in trainer.network.parameters()) / 1e6:.1f} M parameters, step {trainer.steps}")
    train(trainer, tokens.load(arguments.work / "tokens.pt"), arguments.work)


if __name__ == "__main__":
    main()
