"""HiFT: its samples are the oracle's, whatever the calls; none is lost or doubled, and nothing is heard where calls meet."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from tests.tiny import GOLDEN, noise, write
from voxrtc.speechlm.base import HOST
from voxrtc.speechlm.codecs.hift import SAMPLES
from voxrtc.speechlm.codecs.hift_files import load_hift
from voxrtc.speechlm.codecs.hift_stream import LAG, HiftVocoder
from voxrtc.speechlm.codecs.noise import GivenNoise, Noise, SeededNoise
from voxrtc.speechlm.weights import WeightsError, read_pickle

FRAMES = 30  # as in the record


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write("flow", tmp_path_factory.mktemp("hift"))


@pytest.fixture(scope="module")
def hift(folder: Path) -> HiftVocoder:
    return load_hift(read_pickle(folder / "hift.pt"), folder / "hift.pt", HOST)


def breath(seed: int = 0) -> Noise:
    return SeededNoise(seed, 9 * SAMPLES)


def spectrogram(frames: int, seed: int = 0) -> Tensor:
    """Frames that change slowly, as those of speech do."""
    rough = torch.randn(frames // 4 + 2, 80, generator=torch.Generator().manual_seed(seed))
    smooth = torch.nn.functional.interpolate(rough.T[None], scale_factor=4, mode="linear")[0].T
    return smooth[:frames].contiguous()


def whole(hift: HiftVocoder, mel: Tensor, seed: int = 0) -> Tensor:
    return hift([mel], [hift.begin(breath(seed))], [True])[0]


def streamed(hift: HiftVocoder, mel: Tensor, chunks: list[int], seed: int = 0) -> Tensor:
    state, parts = hift.begin(breath(seed)), mel.split(chunks)
    return torch.cat([hift([part], [state], [i + 1 == len(parts)])[0] for i, part in enumerate(parts)])


def test_its_samples_are_the_oracles(hift: HiftVocoder) -> None:
    """The oracle's phase, added up in single precision, is off by more than all else."""
    expected = load_file(GOLDEN / "flow" / "golden.safetensors")["samples"]
    drawn = GivenNoise(noise(FRAMES * SAMPLES * 9).view(FRAMES, -1))
    samples = hift([noise(FRAMES * 80).view(-1, 80)], [hift.begin(drawn)], [True])[0]
    assert samples.shape == expected.shape and expected.std() > 1e-3
    assert (samples - expected).norm() <= 1e-4 * expected.norm(), "1e-3 is promised"


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=5))
@example([1] * 40)
@example([0])
@example([1])
def test_any_chunking_equals_one_call(hift: HiftVocoder, chunks: list[int]) -> None:
    mel = spectrogram(sum(chunks))
    samples, expected = streamed(hift, mel, chunks), whole(hift, mel)
    assert len(samples) == len(expected) == SAMPLES * len(mel)
    torch.testing.assert_close(samples, expected, atol=1e-5, rtol=0)


def test_a_frames_samples_come_when_so_many_follow_and_no_earlier(hift: HiftVocoder) -> None:
    mel, state, given_frames, out = spectrogram(60), hift.begin(breath()), 0, 0
    for part in mel.split(5):
        given_frames += len(part)
        out += len(hift([part], [state], [False])[0])
        assert out == SAMPLES * max(0, given_frames - LAG)


def test_streams_of_a_call_do_not_disturb_each_other(hift: HiftVocoder) -> None:
    mels, chunks = [spectrogram(n, n) for n in (90, 60, 90, 7)], ([45, 45], [20, 40], [45, 45], [7, 0])
    states = [hift.begin(breath(i)) for i in range(4)]
    made: list[list[Tensor]] = [[] for _ in mels]
    for call in range(2):
        parts = [mel.split(list(sizes))[call] for mel, sizes in zip(mels, chunks, strict=True)]
        for i, sound in enumerate(hift(parts, states, [call == 1] * 4)):
            made[i].append(sound)
    for i, mel in enumerate(mels):
        torch.testing.assert_close(torch.cat(made[i]), whole(hift, mel, i), atol=1e-5, rtol=0)


def flux(samples: Tensor) -> Tensor:
    """How much the spectrum changes from each 10 ms to the next, in dB, as a mean over bins [n]."""
    window = torch.hann_window(480)
    spectra = torch.stft(samples, 480, 240, window=window, center=False, return_complex=True).abs().clamp(min=1e-6)
    return (20 * spectra.log10()).diff().abs().mean(0)


def test_nothing_is_heard_where_calls_meet(hift: HiftVocoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spectra of a steady voice change there no more than elsewhere. Without the margins they do, or the measure were none."""
    monkeypatch.setattr(hift.pitch, "forward", lambda mel: torch.full(mel.shape[:2], 130.0))
    mel, size = spectrogram(300), 50
    samples = streamed(hift, mel, [size] * 6)
    cut = torch.cat([whole(hift, part) for part in mel.split(size)])
    joints = [size * i for i in range(1, 6)]
    most = flux(samples).quantile(0.99)
    assert flux_at(samples, joints).max() <= most, "where blocks of frames meet"
    assert flux_at(samples, [joint - LAG for joint in joints]).max() <= most, "where those of samples do"
    assert flux_at(cut, joints).min() > most


def flux_at(samples: Tensor, frames: list[int]) -> Tensor:
    """The most of it near the beginnings of frames."""
    at, change = [2 * frame - 1 for frame in frames], flux(samples)
    return torch.stack([change[i - 1 : i + 2].max() for i in at])


def test_a_minute_keeps_its_pitch_and_takes_no_more_memory(hift: HiftVocoder) -> None:
    state, sizes, level = hift.begin(breath()), [], []
    for _ in range(60):
        samples = hift([spectrogram(50, 1)], [state], [False])[0]
        sizes.append(len(state.mel) + len(state.source) // SAMPLES)
        level.append(float(samples.std()) if len(samples) else None)
    assert len(set(sizes[2:])) == 1
    assert state.pitch.turns.abs().max() < 1
    torch.testing.assert_close(torch.tensor(level[2:]), torch.full((58,), level[2]), atol=0, rtol=0.1)


def test_a_call_that_fails_moves_no_state(hift: HiftVocoder) -> None:
    mel, states = spectrogram(60), [hift.begin(breath()), hift.begin(breath(1))]
    with pytest.raises(RuntimeError):
        hift([mel, mel[:, :79]], states, [True, True])
    torch.testing.assert_close(hift([mel], states[:1], [True])[0], whole(hift, mel))


def test_what_a_file_lacks_is_told_by_name(folder: Path) -> None:
    tensors = read_pickle(folder / "hift.pt")
    trained = {f"generator.{name}": tensor for name, tensor in tensors.items()}
    load_hift(trained, folder / "hift.pt", HOST)
    with pytest.raises(WeightsError, match="lacks 'conv_pre"):
        load_hift({"x": torch.zeros(1)}, folder / "hift.pt", HOST)
    del tensors["ups.1.bias"]
    with pytest.raises(WeightsError, match=r"missing ups\.1\.bias"):
        load_hift(tensors, folder / "hift.pt", HOST)
