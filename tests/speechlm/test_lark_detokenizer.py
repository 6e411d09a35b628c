"""Lark's detokenizer: its sound is hibari's. What every detokenizer promises is in `test_detokenizers`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hibari import dsp
from safetensors.torch import load_file
from torch import Tensor

from tests.speechlm.families import DETOKENIZERS, Voice
from voxrtc.speechlm.lark.detokenizer import LarkDetokenizer
from voxrtc.speechlm.lark.vocoder import BINS, NOISE_ROWS

SHIPPED = Path(__file__).parents[2] / "models" / "lark" / "model.safetensors"


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Voice:
    return DETOKENIZERS["lark"](tmp_path_factory.mktemp("lark"))


class Noise:
    """Stands in for the numpy generator that `dsp.synth` draws its noise from."""

    def __init__(self, frames: Tensor) -> None:
        self.values = np.ascontiguousarray(frames.T.numpy()).view(np.float32)  # [BINS, 2 * steps]

    def standard_normal(self, shape: tuple[int, int], dtype: type) -> np.ndarray:
        assert self.values.shape == shape and self.values.dtype == dtype
        return self.values.copy()


def reference(detokenizer: LarkDetokenizer, codes: Tensor, seed: int) -> np.ndarray:
    """The utterance at once: zero-padded convolutions, then hibari's own synthesis."""
    books, net, noise = detokenizer.codebooks, detokenizer.decoder, detokenizer.vocoder.noise
    text = sum(book[codes[:, k + 1]] for k, book in enumerate(books.unit)) + books.unit_mean
    melody = torch.stack((books.f0[codes[:, 5]].flatten(), books.energy[codes[:, 6]].flatten()), 1) / 5
    rows = torch.cat((text.repeat_interleave(2, 0), melody), 1).T[None]
    hidden = F.conv1d(rows, net.conv_in.weight, net.conv_in.bias, padding=3)
    for block in net.blocks:
        mixed = F.conv1d(hidden, block.dw.weight, block.dw.bias, padding=3, groups=256).transpose(1, 2)
        update = block.gamma * block.pw2(F.gelu(block.pw1(block.norm(mixed))))
        hidden = hidden + update.transpose(1, 2)
    spectra = net.head(net.norm(hidden.transpose(1, 2)))[0].T.contiguous().numpy()
    hertz = books.f0[codes[:, 5]].flatten().expm1().numpy()
    frames = noise[(seed + torch.arange(len(hertz))) % NOISE_ROWS]
    return dsp.synth(*spectra.reshape(5, BINS, -1), hertz, Noise(frames))


@pytest.mark.parametrize("frames", [1, 2, 3, 14, 15, 16, 60])
def test_whole_utterance_is_hibaris(voice: Voice, frames: int) -> None:
    codes, seed = voice.utterance(frames, seed=frames), NOISE_ROWS - 7
    sound = voice.whole(codes, seed).numpy()
    assert isinstance(voice.detokenizer, LarkDetokenizer)
    expected = reference(voice.detokenizer, codes, seed)
    assert sound.shape == expected.shape == (600 * frames,)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(sound, expected, rtol=0, atol=2e-5)


def test_sound_comes_as_early_as_can_be(voice: Voice) -> None:
    state, given = voice.detokenizer.new_state(0), 0
    for frame in voice.utterance(30):
        given += len(voice.detokenizer.decode([frame[None]], [state], [False])[0])
    assert given == 600 * 30 - 8700


def test_the_shipped_weights_stream_exactly(voice: Voice) -> None:
    shipped = Voice(LarkDetokenizer(load_file(SHIPPED)), voice.sizes)
    codes, state = shipped.utterance(40), shipped.detokenizer.new_state(3)
    streamed = [shipped.detokenizer.decode([part], [state], [len(part) < 3])[0] for part in codes.split(3)]
    expected = shipped.whole(codes, seed=3)
    assert expected.abs().max() > 0.05
    assert (torch.cat(streamed) - expected).abs().max() <= 1e-5
    np.testing.assert_allclose(expected.numpy(), reference(shipped.detokenizer, codes, seed=3), rtol=0, atol=2e-5)
