"""Write what the program ships: models/lark/config.json and model.safetensors (float16).

    python export.py --work build/lark --model models/lark

`lm.*` are the averaged weights of `voxrtc.speechlm.lark.network.LarkNetwork`, absent before the first checkpoint;
`codebooks.*` give text feature = unit_mean + sum over k of unit.k[code k], log1p(Hz) pairs `f0` and `energy` pairs;
`decoder.*` is hibari's frame decoder.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import codebooks
import teacher
import torch
from safetensors.torch import save_file

from voxrtc.speechlm.lark.network import LarkConfig

SAMPLE_RATE, FRAME_RATE = 24_000, 40
SHIPPED_BOOKS = (*(f"unit.{k}" for k in range(codebooks.UNIT_BOOKS)), "unit_mean", "f0", "energy")
# Codebooks that are sampled rather than taken greedily, see README.md; empty: greedy throughout.
SAMPLING: dict = {"temperature": 0.0, "top_k": 20}


def config() -> dict:
    """Hyperparameters of the network, of the sound and of sampling."""
    return {
        "network": asdict(LarkConfig()),
        "sample_rate": SAMPLE_RATE,
        "frame_rate": FRAME_RATE,
        "hop": 300,
        "n_fft": 1200,
        "features_per_frame": 2,
        "unvoiced_below": codebooks.UNVOICED_BELOW,
        "prefix": True,
        "sampling": SAMPLING,
    }


def tensors(work: Path) -> dict[str, torch.Tensor]:
    """All shipped weights by name, float32."""
    books = codebooks.load(work)
    shipped = {f"codebooks.{name}": books[name] for name in SHIPPED_BOOKS}
    shipped |= {f"decoder.{name}": torch.tensor(w) for name, w in teacher.decoder_weights().items()}
    checkpoint = work / "checkpoint.pt"
    if checkpoint.exists():
        shipped |= {f"lm.{name}": w for name, w in torch.load(checkpoint, weights_only=True)["average"].items()}
    return shipped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/lark"))
    parser.add_argument("--model", type=Path, default=Path("models/lark"))
    arguments = parser.parse_args()
    halves = {name: w.half().contiguous() for name, w in tensors(arguments.work).items()}
    assert all(w.isfinite().all() for w in halves.values())
    part = arguments.model / "model.safetensors.part"
    save_file(halves, part)
    part.chmod(0o644)
    part.rename(arguments.model / "model.safetensors")
    (arguments.model / "config.json").write_text(json.dumps(config(), indent=2) + "\n")
    print(f"{len(halves)} tensors, {sum(w.numel() for w in halves.values()) / 1e6:.1f} M parameters")


if __name__ == "__main__":
    main()
