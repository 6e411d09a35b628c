"""Oracle of `codecs.snac`: the `snac` package, with a thin decoder of the real strides."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from safetensors.torch import save_file
from snac import SNAC

from tests.parity.saving import write_json
from tests.tiny import fill, manifest

CONFIG = dict(
    sampling_rate=24_000, encoder_dim=2, encoder_rates=[2, 4, 8, 8], decoder_dim=32, decoder_rates=[8, 8, 4, 2],
    attn_window_size=None, codebook_size=4096, codebook_dim=8, vq_strides=[4, 2, 1], noise=True, depthwise=True,
)  # fmt: skip
FRAMES, RATES = 8, (32, 256, 1024, 2048)  # columns a frame where the four blocks draw their noise


@torch.inference_mode()
def record(golden: Path) -> None:
    """Codes [FRAMES, 7], the noise that was drawn, and the samples [2048 * FRAMES]."""
    keep = golden / "snac"
    keep.mkdir(parents=True, exist_ok=True)
    model = oracle(keep)
    random = np.random.RandomState(1)
    codes = torch.from_numpy(random.randint(0, 4096, (FRAMES, 7)))
    noise = [torch.from_numpy(random.standard_normal(rate * FRAMES)).half() for rate in RATES]  # exact in half precision
    drawn = iter(noise)
    with mock.patch("torch.randn", lambda shape, **_: next(drawn).float().view(shape)):
        samples = model.decode([codes[:, at].reshape(1, -1) for at in ([0], [1, 4], [2, 3, 5, 6])])
    told = {"codes": codes, "samples": samples[0, 0].contiguous()}
    save_file(told | {f"noise.{i}": values for i, values in enumerate(noise)}, keep / "golden.safetensors")


def oracle(keep: Path) -> SNAC:
    """The oracle, loaded from a folder as its authors lay it out; what is kept of that goes to `keep`."""
    state = SNAC(**CONFIG).state_dict()
    write_json(keep / "config.json", CONFIG)
    write_json(keep / "manifest.json", {"pytorch_model.bin": manifest(state)})
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder, "config.json"), CONFIG)
        torch.save({name: fill(name, tensor.shape) for name, tensor in state.items()}, Path(folder, "pytorch_model.bin"))
        return SNAC.from_pretrained(folder).eval()
