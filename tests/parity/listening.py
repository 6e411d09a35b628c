"""Oracles of `codecs.features` and `voice_reader`: Kaldi's filter banks, librosa's mel bands; S3 and CAM++ in torch, tiny.

The two networks are exported as their authors publish them, and what they say of the samples in torch is recorded.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import kaldi_native_fbank
import onnx
import s3tokenizer
import torch
from s3tokenizer.model_v2 import ModelConfig, S3TokenizerV2
from safetensors.torch import save_file

from tests.parity import stubs  # noqa: F401  before what it stands in for
from tests.parity.flow import filled
from tests.tiny import noise

from chatterbox.models.s3gen.xvector import CAMPPlus  # isort: skip
from matcha.utils.audio import mel_spectrogram  # isort: skip

RATE = 16_000


def sound(rate: int) -> torch.Tensor:
    """1.3 s that rise and fall in pitch and loudness, with a silence and some noise."""
    time = torch.arange(int(1.3 * rate), dtype=torch.float64) / rate
    tone = 0.4 * torch.sin(2 * torch.pi * (220 * time + 30 * torch.sin(4 * time))) * (time * 3).sin().abs()
    return (torch.where(time > 1.1, 0.0, tone.float() + 0.01 * noise(len(time)))).float()


def save(
    model: torch.nn.Module, example: tuple[torch.Tensor, ...], path: Path, inputs: dict[str, dict[int, str]], output: str
) -> None:
    """As an ONNX file, without where in the sources each operation came from; `inputs` names them and axes of any length."""
    torch.onnx.export(
        model, example, path, dynamo=False, input_names=list(inputs), output_names=[output],
        dynamic_axes={name: axes for name, axes in inputs.items() if axes},
    )  # fmt: skip
    saved = onnx.load(path)
    for node in saved.graph.node:
        node.ClearField("doc_string")
    onnx.save(saved, path)


@torch.inference_mode()
def export(keep: Path) -> None:
    """The networks' files, and `listening.safetensors`: features [every third frame], tokens and embedding of `sound`."""
    heard = sound(RATE)
    bands, mel = kaldi(heard), s3tokenizer.log_mel_spectrogram(heard)
    told = {"fbank": bands[::3], "whisper": mel[:, ::3], "vocoder": vocoder(sound(24_000))[::3]}
    told |= {"tokens": tokens(mel[None], keep), "speaker": speaker((bands - bands.mean(0))[None], keep)}
    save_file({name: part.contiguous() for name, part in told.items()}, keep / "listening.safetensors")


def kaldi(samples: torch.Tensor) -> torch.Tensor:
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither, options.mel_opts.num_bins = 0.0, 80
    fbank = kaldi_native_fbank.OnlineFbank(options)
    fbank.accept_waveform(RATE, samples.tolist())
    return torch.stack([torch.from_numpy(fbank.get_frame(i).copy()) for i in range(fbank.num_frames_ready)])


def vocoder(samples: torch.Tensor) -> torch.Tensor:
    return mel_spectrogram(samples[None], 1920, 80, 24_000, 480, 1920, 0, 8000)[0].T


def tokens(mel: torch.Tensor, keep: Path) -> torch.Tensor:
    """ONNX has no complex numbers, so the rotary angles are given as pairs."""
    model = filled(S3TokenizerV2("v2", ModelConfig(n_audio_state=64, n_audio_head=1, n_audio_layer=1)))
    length = torch.tensor([mel.shape[2]], dtype=torch.int32)
    codes, _ = model.quantize(mel, length)
    model.encoder.freqs_cis = Angles()
    with mock.patch("torch.view_as_real", Angles.pairs):
        save(
            Encoded(model), (mel, length), keep / "speech_tokenizer_v2.onnx", {"feats": {2: "T"}, "feats_length": {}}, "indices"
        )
    return codes[0].int()


class Angles:
    """S3's rotary angles, computed for as many positions as there are: a table of them would be most of the file."""

    def to(self, device: torch.device) -> Angles:
        return self

    def __getitem__(self, span: slice) -> torch.Tensor:
        """[n, 64, 2], cosines and sines."""
        rates = 10_000 ** -(torch.arange(32) / 32)
        angles = (torch.arange(span.stop)[:, None] * rates).repeat(1, 2)
        return torch.stack((angles.cos(), angles.sin()), -1)

    @staticmethod
    def pairs(x: torch.Tensor | Angles) -> torch.Tensor:
        """In place of `torch.view_as_real`; of all angles the encoder makes nothing."""
        return x[:1] if isinstance(x, Angles) else x


class Encoded(torch.nn.Module):
    """The part of S3 that is published: recordings of 30 s at most."""

    def __init__(self, model: S3TokenizerV2) -> None:
        super().__init__()
        self.model = model

    def forward(self, mel: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        return self.model.quantizer.encode(self.model.encoder(mel, length)[0])


def speaker(bands: torch.Tensor, keep: Path) -> torch.Tensor:
    torch.manual_seed(0)
    model = CAMPPlus(growth_rate=2, bn_size=2, init_channels=8, memory_efficient=False).eval()
    for name, values in model.named_buffers():
        if name.endswith("running_var"):
            values.uniform_(0.5, 1.5)
    embedding = model(bands)[0]
    save(model, (bands,), keep / "campplus.onnx", {"input": {1: "T"}}, "output")
    return embedding
