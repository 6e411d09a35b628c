"""SNAC's decoder: its sound is the oracle's. What every detokenizer promises is in `test_detokenizers`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.tiny import GOLDEN, write
from voxrtc.speechlm.codecs.snac import NOISE, Snac
from voxrtc.speechlm.weights import WeightsError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write("snac", tmp_path_factory.mktemp("snac"))


@pytest.fixture(scope="module")
def snac(folder: Path) -> Snac:
    return Snac.load(folder)


def utterance(frames: int, seed: int = 0) -> Tensor:
    """Random codes [frames, 7]."""
    return torch.randint(4096, (frames, 7), generator=torch.Generator().manual_seed(seed))


def whole(snac: Snac, codes: Tensor, seed: int = 0) -> Tensor:
    """One call, alone."""
    return snac.decode([codes], [snac.new_state(seed)], [True])[0]


@pytest.mark.parametrize("chunks", [[8], [1] * 8, [3, 0, 4, 1]])
def test_sound_is_the_oracles(snac: Snac, chunks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    golden = load_file(GOLDEN / "snac" / "golden.safetensors")
    monkeypatch.setattr(snac, "noise", lambda block, columns: golden[f"noise.{block}"].float()[columns])
    state = snac.new_state(0)
    parts = golden["codes"].split(chunks)
    streamed = [snac.decode([part], [state], [i + 1 == len(parts)])[0] for i, part in enumerate(parts)]
    assert golden["samples"].abs().max() > 0.1
    assert (torch.cat(streamed) - golden["samples"]).abs().max() <= 1e-5, "the interface promises 1e-4"


def test_noise_is_gaussian_and_hangs_on_seed_and_column_alone(snac: Snac) -> None:
    a = snac.noise(3, torch.arange(1000, 21_000))
    assert abs(float(a.mean())) < 0.03 and abs(float(a.std()) - 1) < 0.03
    assert torch.equal(a[5:15], snac.noise(3, torch.arange(1005, 1015)))
    assert torch.equal(snac.noise(0, torch.arange(NOISE - 3, NOISE + 3))[3:], snac.noise(0, torch.arange(3)))


def test_a_call_that_fails_moves_no_state(snac: Snac) -> None:
    codes, states = utterance(6), [snac.new_state(0), snac.new_state(0)]
    bad = codes.clone()
    bad[4, 2] = 4096
    first = snac.decode([codes[:3], codes[:3]], states, [False, False])
    with pytest.raises(IndexError):
        snac.decode([codes[3:], bad[3:]], states, [True, True])
    rest = snac.decode([codes[3:]], states[:1], [True])
    assert (torch.cat((first[0], rest[0])) - whole(snac, codes)).abs().max() <= 1e-5


def test_sound_comes_as_early_as_can_be(snac: Snac) -> None:
    state, made = snac.new_state(0), []
    for frame in utterance(5):
        made.append(len(snac.decode([frame[None]], [state], [False])[0]))
    assert made == [0, 0, 3 * 2048 - 4757, 2048, 2048]
    assert (snac.samples_per_group, snac.lookahead, snac.lag) == (2048, 3, 4757)


def test_safetensors_and_old_names_load_alike(folder: Path, snac: Snac, tmp_path: Path) -> None:
    """torch wrote a normed weight as `weight_g` and `weight_v` before it called them parametrizations."""
    new = torch.load(folder / "pytorch_model.bin", weights_only=True)
    names = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    old = {}
    for name, tensor in new.items():
        for long, short in names.items():
            name = name.replace(long, short)
        old[name] = tensor
    save_file(old, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    assert torch.equal(whole(Snac.load(tmp_path), utterance(5)), whole(snac, utterance(5)))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.pop("decoder.model.7.bias"), r"missing decoder\.model\.7\.bias"),
        (lambda t: t.update({"decoder.model.9.bias": torch.zeros(1)}), r"surplus decoder\.model\.9\.bias"),
        (lambda t: t.update({"decoder.model.6.alpha": torch.ones(1, 3, 1)}), r"decoder\.model\.6\.alpha is \[1, 3, 1\]"),
        (lambda t: t.pop("decoder.model.1.parametrizations.weight.original0"), r"decoder\.model\.1\.weight_g"),
    ],
)
def test_a_broken_checkpoint_is_told_by_name(folder: Path, tmp_path: Path, change, told: str) -> None:  # type: ignore[no-untyped-def]
    write("snac", tmp_path)
    tensors = torch.load(tmp_path / "pytorch_model.bin", weights_only=True)
    change(tensors)
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=told):
        Snac.load(tmp_path)


def test_a_snac_of_another_make_is_refused(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "sampling_rate": 44_100, "vq_strides": [8, 4, 2, 1]}))
    with pytest.raises(WeightsError, match="sampling_rate is 44100, not 24000; vq_strides"):
        Snac.load(tmp_path)


def test_big_calls_are_cut_but_sound_the_same(snac: Snac) -> None:
    frames = [70, 0, 31, 2, 33, 64]
    codes = [utterance(count, seed=i) for i, count in enumerate(frames)]
    together = snac.decode(codes, [snac.new_state(i) for i in range(6)], [True] * 6)
    for i, sound in enumerate(together):
        expected = whole(snac, codes[i], seed=i)
        assert len(sound) == len(expected) == 2048 * frames[i]
        assert not len(sound) or (sound - expected).abs().max() <= 1e-5
