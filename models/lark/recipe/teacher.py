"""Lark's teacher: hibari.onnx, cut where its acoustic features enter its frame decoder.

The network is two networks in a row. The front reads phonemes and gives, per phoneme, a 128-d text feature and a
duration in frames of 25 ms, and per half frame (12.5 ms) the pitch and the energy. Behind the boundary tensor a purely
convolutional *frame decoder* turns those into spectra. Lark's language model learns to replace the front, token by
token; the frame decoder stays, in float32 (the file holds its matrices in 8 bits, whose dynamic scales would
otherwise depend on how the sound is cut into chunks).

    python teacher.py --work build/lark      # sentences.json -> features.npz
"""

import argparse
import hashlib
import json
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from hibari import Hibari
from onnx import numpy_helper
from onnx.utils import Extractor

HIBARI_SHA256 = "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"
TEXT_FEATURE, DURATION, PITCH, ENERGY = "/Transpose_22_output_0", "/Clip_output_0", "f0", "/Mul_62_output_0"
DECODER_BLOCKS = 8
MAX_PHONEMES = 330  # ids of one sentence, the two pads included
MAX_FRAMES = 600  # 15 s


@dataclass
class Features:
    """What the teacher says about one sentence of L phonemes and F frames (25 ms)."""

    ids: np.ndarray  # [L] int16 phoneme ids, pads included
    durations: np.ndarray  # [L] int16, frames; they sum to F
    text: np.ndarray  # [L, 128] float16
    pitch: np.ndarray  # [2F] float16, Hz; below 40 means unvoiced
    energy: np.ndarray  # [2F] float16


def hibari_path() -> Path:
    """The wheel's model file; refuses any other than the one this recipe was written for."""
    path = Path(str(files("hibari") / "assets" / "hibari.onnx"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != HIBARI_SHA256:
        raise RuntimeError(f"hibari.onnx is {digest[:12]}…, expected {HIBARI_SHA256[:12]}…: install hibari-tts==0.2.1")
    return path


class Front:
    """Phoneme ids -> Features, on one thread of ONNX Runtime."""

    def __init__(self):
        model = onnx.shape_inference.infer_shapes(onnx.load(hibari_path()))
        known = {v.name for v in [*model.graph.value_info, *model.graph.input, *model.graph.output]}
        outputs = [TEXT_FEATURE, DURATION, PITCH, ENERGY]
        for name in outputs:
            if name not in known:  # the extractor wants a declared type, the shape may stay open
                model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        front = Extractor(model).extract_model(["ids", "speed"], outputs)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(front.SerializeToString(), options, ["CPUExecutionProvider"])

    def __call__(self, ids: list[int]) -> Features:
        feed = {"ids": np.asarray([ids], np.int64), "speed": np.ones(1, np.float32)}
        text, durations, pitch, energy = self._session.run(None, feed)
        durations = durations.reshape(-1).astype(np.int16)
        assert 2 * int(durations.sum()) == pitch.shape[1] == energy.shape[1]
        half = np.float16
        return Features(
            np.asarray(ids, np.int16), durations, text[0].T.astype(half), pitch[0].astype(half), energy[0].astype(half)
        )


def _constants(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """Every initializer and constant of the graph by name; 8-bit ones come back as float32 under their base name."""
    raw = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            raw[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    floats = dict(raw)
    for name, value in raw.items():
        if name.endswith("_quantized"):
            base = name.removesuffix("_quantized")
            floats[base] = (value.astype(np.float32) - raw[f"{base}_zero_point"]) * raw[f"{base}_scale"]
    return floats


def decoder_weights() -> dict[str, np.ndarray]:
    """The frame decoder as float32 arrays in torch's conventions (Linear [out, in], Conv1d [out, in, taps]).

    `conv_in` 130 -> 256 over 7 taps; `blocks.{i}`: ConvNeXt with depthwise `dw`, `norm`, `pw1` 256 -> 768, GELU, `pw2`,
    `gamma`; `norm`; `head` 256 -> 5 x 601 (log harmonic, theta, log noise, log free-phase magnitude, phase).
    """
    found = _constants(onnx.load(hibari_path()).graph)
    weights = {}
    for part in ("weight", "bias"):
        weights[f"conv_in.{part}"] = found[f"m.dec_in.{part}"]
        weights[f"norm.{part}"] = found[f"m.dec_norm.{part}"]
    weights["head.weight"], weights["head.bias"] = found["/head/Transpose_output_0"].T, found["m.head.bias"]
    for i in range(DECODER_BLOCKS):
        ours, theirs = f"blocks.{i}", f"m.dec.{i}"
        weights[f"{ours}.gamma"] = found[f"{theirs}.gamma"]
        for layer in ("dw", "norm"):
            for part in ("weight", "bias"):
                weights[f"{ours}.{layer}.{part}"] = found[f"{theirs}.{layer}.{part}"]
        for layer in ("pw1", "pw2"):
            weights[f"{ours}.{layer}.weight"] = found[f"/dec.{i}/{layer}/Transpose_output_0"].T
            weights[f"{ours}.{layer}.bias"] = found[f"{theirs}.{layer}.bias"]
    return {name: np.ascontiguousarray(value, np.float32) for name, value in weights.items()}


def prompt_ids(tts: Hibari, text: str) -> list[int] | None:
    """Phoneme ids of a text that the phonemizer takes as one sentence; None for any other, and for over-long ones."""
    phonemes = tts.phonemize(text)
    if len(phonemes) != 1:
        return None
    ids = tts.ids(phonemes[0])
    return ids if 3 <= len(ids) <= MAX_PHONEMES else None


def save(features: list[Features], path: Path) -> None:
    """All sentences in one archive: each field concatenated, with the lengths to cut it again."""
    joined = {f: np.concatenate([getattr(x, f) for x in features]) for f in Features.__annotations__}
    np.savez(path, phonemes=[len(x.ids) for x in features], frames=[int(x.durations.sum()) for x in features], **joined)


def load(path: Path) -> list[Features]:
    """The inverse of `save`."""
    archive = dict(np.load(path))
    by_phoneme, by_frame = np.cumsum(archive.pop("phonemes"))[:-1], np.cumsum(archive.pop("frames"))[:-1]
    per_half_frame = ("pitch", "energy")
    cut = {f: np.split(v, 2 * by_frame if f in per_half_frame else by_phoneme) for f, v in archive.items()}
    return [Features(*row) for row in zip(*(cut[f] for f in Features.__annotations__), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/lark"))
    work = parser.parse_args().work
    sentences = json.loads((work / "sentences.json").read_text())
    tts, front, started = Hibari(), Front(), time.monotonic()
    kept, texts = [], []
    for n, text in enumerate(sentences):
        ids = prompt_ids(tts, text)
        features = front(ids) if ids else None
        if features and features.durations.sum() <= MAX_FRAMES:
            kept.append(features)
            texts.append(text)
        if n % 2000 == 0:
            print(f"{n} of {len(sentences)} sentences, {time.monotonic() - started:.0f} s", flush=True)
    save(kept, work / "features.npz")
    (work / "kept.json").write_text(json.dumps(texts))
    hours = sum(int(x.durations.sum()) for x in kept) / 40 / 3600
    print(f"{len(kept)} sentences, {hours:.1f} h, {sum(len(x.ids) for x in kept)} phonemes")


if __name__ == "__main__":
    main()
