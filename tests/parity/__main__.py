"""`python -m tests.parity check|write`: whether the oracles still say what `tests/golden` holds, or write it anew."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

from tests.parity import (
    cosyvoice2,
    csm,
    decoders,
    dit,
    flow,
    mimi,
    orpheus,
    pocket,
    smollm2,
    snac_decoder,
    stepaudio2,
)  # fmt: skip
from tests.tiny import GOLDEN

RECORDERS = (
    decoders.record, snac_decoder.record, mimi.record, orpheus.record, csm.record, pocket.record, smollm2.record, flow.record,
    dit.record, cosyvoice2.record, stepaudio2.record,
)  # fmt: skip
TOLERANCE = 1e-5  # between machines


def main(command: str) -> int:
    """Exit status: 0 when oracles and record agree, or the record was written."""
    if command == "write":
        for record in RECORDERS:
            record(GOLDEN)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for record in RECORDERS:
            record(Path(folder))
        made = sorted(path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file())
        wrong = [name for name in made if not same(Path(folder, name), GOLDEN / name)]
    for name in made:
        print(f"{'DIFFERS' if name in wrong else 'as recorded':12} {name}")
    return bool(wrong)


def same(new: Path, old: Path) -> bool:
    """Whether two files of the record say the same."""
    if not old.exists():
        return False
    if new.suffix == ".json":
        return json.loads(new.read_text()) == json.loads(old.read_text())
    if new.suffix != ".safetensors":
        return new.read_bytes() == old.read_bytes()
    ours, theirs = load_file(new), load_file(old)
    return ours.keys() == theirs.keys() and all(close(ours[name], theirs[name]) for name in ours)


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, or nearly so where they are no integers."""
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0, atol=TOLERANCE * a.is_floating_point())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
