"""Lark's codebooks: what the seven integers of a frame stand for.

`advance` (2) needs none. Four residual books of 512 quantise the text feature, in the metric in which the frame
decoder's first layer sees it; one of 512 holds pairs of log pitch, one of 256 pairs of energy (a frame of 25 ms has
two half frames).

    python codebooks.py --work build/lark     # features.npz -> codebooks.safetensors
"""

import argparse
from pathlib import Path

import numpy as np
import teacher
import torch
from safetensors.torch import load_file, save_file

SEED = 0
UNIT_BOOKS, UNIT_SIZE, PITCH_SIZE, ENERGY_SIZE = 4, 512, 512, 256
BOOK_SIZES = (2, *(UNIT_SIZE,) * UNIT_BOOKS, PITCH_SIZE, ENERGY_SIZE)
UNVOICED_BELOW = 40.0  # Hz; hibari's DSP makes noise below it
PITCH_SCALE = 20.0  # log1p(Hz): a semitone is 0.06, voiced against unvoiced 4


def metric(first_layer: torch.Tensor) -> torch.Tensor:
    """A [128, 128] such that distances between `feature @ A` are what the decoder's first layer makes of them.

    Two kinds of change count: of one frame alone (its seven taps' energies added), and of a whole run of frames, as a
    phoneme is (the taps added first).
    """
    taps = first_layer[:, :128]  # [256, 128, 7]
    constant = taps.sum(2)
    gram = torch.einsum("oit,ojt->ij", taps, taps) + constant.T @ constant / taps.shape[2]
    values, vectors = torch.linalg.eigh(gram)
    return vectors * values.clamp(min=1e-8).sqrt()


def nearest(points: torch.Tensor, book: torch.Tensor) -> torch.Tensor:
    """Index of each point's nearest entry: [N, D], [K, D] -> [N]."""
    norms = book.pow(2).sum(1)
    return torch.cat([(norms - 2 * part @ book.T).argmin(1) for part in points.split(8192)])


def kmeans(points: torch.Tensor, size: int, iterations: int = 14, sample: int = 80_000) -> torch.Tensor:
    """A book [size, D]; entries that lose all their points start again at a random one."""
    points = points[torch.randperm(len(points))[:sample]]
    book = points[:size].clone()
    for _ in range(iterations):
        owner = nearest(points, book)
        count = torch.bincount(owner, minlength=size)[:, None]
        total = torch.zeros_like(book).index_add_(0, owner, points)
        book = torch.where(count > 0, total / count.clamp(min=1), points[torch.randint(len(points), (size,))])
    return book


def residual_books(points: torch.Tensor) -> list[torch.Tensor]:
    """UNIT_BOOKS books, each fitted to what those before it left over."""
    books, rest = [], points
    for _ in range(UNIT_BOOKS):
        books.append(kmeans(rest, UNIT_SIZE))
        rest = rest - books[-1][nearest(rest, books[-1])]
        print(f"unit book {len(books)}: {rest.pow(2).sum() / points.pow(2).sum():.4f} of the energy left")
    return books


def log_pitch(pitch: torch.Tensor) -> torch.Tensor:
    """[2F] Hz -> pairs [F, 2] of log1p(Hz), 0 where unvoiced."""
    return torch.log1p(torch.where(pitch < UNVOICED_BELOW, 0.0, pitch)).view(-1, 2)


def fit(features: list[teacher.Features], first_layer: torch.Tensor) -> dict[str, torch.Tensor]:
    """All books, and what the encoder needs besides (`metric`)."""
    text, pitch, energy = (
        torch.from_numpy(np.concatenate([getattr(f, name) for f in features]).astype(np.float32))
        for name in ("text", "pitch", "energy")
    )
    to_metric, mean = metric(first_layer), text.mean(0)
    back = torch.linalg.inv(to_metric)
    # Stored back in feature space, so that decoding is a plain sum: feature = mean + sum over k of unit.k[code k].
    books = {f"unit.{k}": b @ back for k, b in enumerate(residual_books((text - mean) @ to_metric))}
    books |= {"unit_mean": mean, "metric": to_metric}
    books["f0"] = kmeans(log_pitch(pitch) * PITCH_SCALE, PITCH_SIZE, 20) / PITCH_SCALE
    books["energy"] = kmeans(energy.view(-1, 2), ENERGY_SIZE, 20)
    return {name: value.contiguous() for name, value in books.items()}


def encode_units(text: torch.Tensor, books: dict[str, torch.Tensor]) -> torch.Tensor:
    """Text features [L, 128] -> codes [L, UNIT_BOOKS]."""
    rest, codes = (text - books["unit_mean"]) @ books["metric"], []
    for k in range(UNIT_BOOKS):
        book = books[f"unit.{k}"] @ books["metric"]
        codes.append(nearest(rest, book))
        rest = rest - book[codes[-1]]
    return torch.stack(codes, 1)


def encode_prosody(pitch: torch.Tensor, energy: torch.Tensor, books: dict[str, torch.Tensor]) -> torch.Tensor:
    """Half-frame pitch and energy [2F] -> codes [F, 2]."""
    f0 = nearest(log_pitch(pitch) * PITCH_SCALE, books["f0"] * PITCH_SCALE)
    return torch.stack([f0, nearest(energy.view(-1, 2), books["energy"])], 1)


def load(work: Path) -> dict[str, torch.Tensor]:
    """The books that `main` wrote."""
    return load_file(work / "codebooks.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/lark"))
    work = parser.parse_args().work
    torch.manual_seed(SEED)
    features = teacher.load(work / "features.npz")[:12_000]
    first_layer = torch.tensor(teacher.decoder_weights()["conv_in.weight"])
    save_file(fit(features, first_layer), work / "codebooks.safetensors")


if __name__ == "__main__":
    main()
