"""Lark's detokenizer: streamed sound equals whole sound, and whole sound equals hibari's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hibari import dsp
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from voxrtc.speechlm.lark.detokenizer import Codebooks, Decoder, LarkDetokenizer
from voxrtc.speechlm.lark.vocoder import BINS, NOISE_ROWS

SHIPPED = Path(__file__).parents[2] / "models" / "lark" / "model.safetensors"
SIZES = torch.tensor((2, 512, 512, 512, 512, 512, 256))
TOLERANCE = 1e-5  # the interface promises 1e-4
CHUNKS = st.lists(st.integers(0, 12), min_size=1, max_size=8)  # the last one is final


def weights() -> dict[str, Tensor]:
    """Random weights under the file's names; a third of the pitches is unvoiced."""
    torch.manual_seed(0)
    codebooks, decoder = Codebooks(), Decoder()
    for parameter in codebooks.parameters():
        parameter.data.normal_(std=0.3)
    hertz = torch.rand(512, 2) * 300 + 60
    hertz[::3] = 0.0
    codebooks.f0.data = hertz.log1p()
    parts = {"codebooks": codebooks, "decoder": decoder}
    return {f"{part}.{name}": value for part, module in parts.items() for name, value in module.state_dict().items()}


@pytest.fixture(scope="module")
def detokenizer() -> LarkDetokenizer:
    return LarkDetokenizer(weights())


def utterance(frames: int, seed: int = 0) -> Tensor:
    """Random codes [frames, 7]."""
    return (torch.rand(frames, 7, generator=torch.Generator().manual_seed(seed)) * SIZES).long()


def whole(detokenizer: LarkDetokenizer, codes: Tensor, seed: int = 0) -> Tensor:
    """One call, alone."""
    return detokenizer.decode([codes], [detokenizer.new_state(seed)], [True])[0]


def assert_same(streamed: list[Tensor], expected: Tensor) -> None:
    sound = torch.cat(streamed)
    assert sound.shape == expected.shape and sound.dtype == torch.float32
    assert not len(sound) or (sound - expected).abs().max() <= TOLERANCE


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
def test_whole_utterance_is_hibaris(detokenizer: LarkDetokenizer, frames: int) -> None:
    codes, seed = utterance(frames, seed=frames), NOISE_ROWS - 7
    sound = whole(detokenizer, codes, seed).numpy()
    expected = reference(detokenizer, codes, seed)
    assert sound.shape == expected.shape == (600 * frames,)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(sound, expected, rtol=0, atol=2e-5)


@settings(max_examples=40, deadline=None)
@given(chunks=CHUNKS, seed=st.integers(0, 2**32))
def test_any_chunking_equals_one_call(detokenizer: LarkDetokenizer, chunks: list[int], seed: int) -> None:
    codes, state, streamed, given_frames = utterance(sum(chunks)), detokenizer.new_state(seed), [], 0
    for i, part in enumerate(codes.split(chunks)):
        last, given_frames = i + 1 == len(chunks), given_frames + len(part)
        streamed += detokenizer.decode([part], [state], [last])
        due = 600 * given_frames - (0 if last else 8700)
        assert sum(map(len, streamed)) == max(0, due)
    assert_same(streamed, whole(detokenizer, codes, seed))


@settings(max_examples=25, deadline=None)
@given(streams=st.lists(st.tuples(st.integers(0, 4), CHUNKS), min_size=2, max_size=5))
def test_streams_that_join_and_leave_do_not_disturb_each_other(
    detokenizer: LarkDetokenizer, streams: list[tuple[int, list[int]]]
) -> None:
    codes = [utterance(sum(chunks), seed=i) for i, (_, chunks) in enumerate(streams)]
    parts = [part.split(chunks) for part, (_, chunks) in zip(codes, streams, strict=True)]
    states = [detokenizer.new_state(i) for i in range(len(streams))]
    streamed: list[list[Tensor]] = [[] for _ in streams]
    for call in range(13):
        turn = {i: call - join for i, (join, chunks) in enumerate(streams) if 0 <= call - join < len(chunks)}
        if not turn:
            continue
        final = [k + 1 == len(parts[i]) for i, k in turn.items()]
        sounds = detokenizer.decode([parts[i][k] for i, k in turn.items()], [states[i] for i in turn], final)
        for i, sound in zip(turn, sounds, strict=True):
            streamed[i].append(sound)
    for i, sounds in enumerate(streamed):
        assert_same(sounds, whole(detokenizer, codes[i], seed=i))


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_tiny_utterances_come_out_with_the_final_call(detokenizer: LarkDetokenizer, frames: int) -> None:
    codes, state = utterance(frames), detokenizer.new_state(0)
    early = [detokenizer.decode([frame[None]], [state], [False])[0] for frame in codes]
    rest = detokenizer.decode([codes[:0]], [state], [True])[0]
    assert not any(map(len, early)) and len(rest) == 600 * frames
    assert_same([rest], whole(detokenizer, codes))


def test_a_frame_comes_out_when_its_lookahead_is_there(detokenizer: LarkDetokenizer) -> None:
    state, codes = detokenizer.new_state(0), utterance(1 + detokenizer.lookahead)
    ready = sum(len(detokenizer.decode([frame[None]], [state], [False])[0]) for frame in codes)
    assert ready >= detokenizer.samples_per_group


def test_an_empty_utterance_is_silent(detokenizer: LarkDetokenizer) -> None:
    assert len(whole(detokenizer, utterance(0))) == 0


def test_an_ended_stream_takes_no_more(detokenizer: LarkDetokenizer) -> None:
    state = detokenizer.new_state(0)
    detokenizer.decode([utterance(1)], [state], [True])
    with pytest.raises(AssertionError):
        detokenizer.decode([utterance(1)], [state], [False])


def test_the_seed_chooses_the_noise(detokenizer: LarkDetokenizer) -> None:
    codes = utterance(4)
    assert torch.equal(whole(detokenizer, codes, 1), whole(detokenizer, codes, 1))
    assert not torch.equal(whole(detokenizer, codes, 1), whole(detokenizer, codes, 2))


def test_the_shipped_weights_stream_exactly() -> None:
    detokenizer, codes = LarkDetokenizer(load_file(SHIPPED)), utterance(40)
    state = detokenizer.new_state(3)
    streamed = [detokenizer.decode([part], [state], [len(part) < 3])[0] for part in codes.split(3)]
    expected = whole(detokenizer, codes, seed=3)
    assert expected.abs().max() > 0.05
    assert_same(streamed, expected)
    np.testing.assert_allclose(expected.numpy(), reference(detokenizer, codes, seed=3), rtol=0, atol=2e-5)
