"""Which device and which numbers the settings mean, and the way of numbers there and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from tests.pretend import device, pretended
from voxrtc.engine.device import Device, DeviceError, chosen_device, chosen_dtype, chosen_sound, placed
from voxrtc.engine.outcome import Here, Sent
from voxrtc.engine.staging import Staging
from voxrtc.settings import Settings
from voxrtc.speechlm.base import HOST, Frames, Placement


@pytest.mark.parametrize(
    ("gpus", "name", "expected"), [(0, "auto", "cpu"), (2, "auto", "cuda:0"), (2, "cpu", "cpu"), (2, "cuda:1", "cuda:1")]
)
def test_the_device_that_is_meant(gpus: int, name: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert chosen_device(name) == torch.device(expected)


@pytest.mark.parametrize(("gpus", "name", "hint"), [(0, "cuda", "no GPU here"), (1, "cuda:1", "there are 1 GPUs")])
def test_a_device_that_is_not_there_is_refused(gpus: int, name: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(DeviceError, match=hint):
        chosen_device(name)


def test_the_detokenizer_s_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own, and that of the language model where none is named; also where it has a process of its own, beside which the
    engine makes voices with a copy."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    first, second = torch.device("cuda", 0), torch.device("cuda", 1)
    apart = Settings(device="cuda:0", detokenizer_device="cuda:1")
    assert placed(apart) == Placement(first, torch.bfloat16, second)
    assert placed(Settings(device="cuda:0")).sound == first
    process = apart.model_copy(update={"disaggregated": True})
    assert placed(process).sound == chosen_sound(process) == second
    with pytest.raises(DeviceError, match="VOXRTC_DETOKENIZER_DEVICE is cuda:2, but there are 2 GPUs"):
        chosen_sound(Settings(device="cpu", detokenizer_device="cuda:2"))


def test_the_numbers_that_are_meant() -> None:
    gpu = torch.device("cuda", 0)
    assert chosen_dtype("auto", HOST) == chosen_dtype("float32", gpu) == torch.float32
    assert chosen_dtype("auto", gpu) == chosen_dtype("bfloat16", HOST) == torch.bfloat16


@pytest.mark.parametrize(
    "wrong",
    [dict(device="gpu"), dict(device="cuda:x"), dict(detokenizer_device="tpu"), dict(dtype="float16"), dict(kv_memory=-1)],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict) -> None:
    with pytest.raises(ValidationError):
        Settings(**wrong)


def test_whether_a_device_is_dead_is_asked_of_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", asked.append)
    device = Device(HOST)
    device.check()
    device.device, device._cuda = torch.device("cuda", 1), True
    device.check()
    assert asked == [torch.device("cuda", 1)]


def test_staged_numbers_arrive_and_lie_where_they_lay() -> None:
    with pretended():
        staging = Staging(20, 3, torch.int32, device())
        for scale in (1, 5):
            parts = [scale * np.arange(n) for n in (3, 0, 9)]
            there = staging.send(*parts)
            assert [part.cpu().tolist() for part in there] == [part.tolist() for part in parts]
            assert [part.storage_offset() for part in there] == [0, 4, 4], "each part begins at 16 bytes"
            assert [part.shape for part in staging.places(3, 0, 9)] == [part.shape for part in there]


@pytest.mark.parametrize("codes", [torch.tensor([[1, 2], [3, 2**40]]), torch.tensor([[0.5, -1.0], [torch.nan, 3.0]]), None])
def test_what_a_step_gave_comes_home_in_one_copy_as_it_was(codes: torch.Tensor | None) -> None:
    healthy = torch.tensor([True, False, True])
    frames = None if codes is None else Frames(codes, torch.tensor([False, True]))
    expected = Here(healthy, frames).read()
    with pretended() as mode:
        there = None if frames is None else Frames(frames.codes.to(device()), frames.last.to(device()))
        sent = Sent(healthy.to(device()), there)
        assert not mode.waits
        made = sent.read()
    assert made[0] == expected[0] and made[2] == expected[2]
    assert codes is None or (made[1].dtype == codes.dtype and torch.equal(made[1].nan_to_num(7), codes.nan_to_num(7)))
