"""A recording -> a voice: its speech tokens by the S3 tokenizer, its speaker by CAM++, its spectrogram.

Both networks are run as they are published, by onnxruntime: S3 (arXiv 2412.10117, section 2.1) is most of a Whisper encoder
with finite scalar quantisation, CAM++ (arXiv 2303.00332) tells speakers apart.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import soxr
import torch

from voxrtc.speechlm.base import Clip, InvalidRequest
from voxrtc.speechlm.codecs.conformer import RATIO
from voxrtc.speechlm.codecs.features import kaldi_fbank, vocoder_mel, whisper_mel
from voxrtc.speechlm.codecs.token_flow import FlowPrompt
from voxrtc.speechlm.weights import WeightsError

RATE = 16_000  # that both networks hear
TOKEN_RATE = 25  # speech tokens a second
SHORTEST_CLIP, LONGEST_CLIP = 1, 30  # seconds
SPEAKER = "campplus.onnx"  # in every repository


class VoiceReader:
    """Hears recordings. The networks work on the host."""

    def __init__(self, folder: Path, tokenizer: str, device: torch.device) -> None:
        """Read both from a folder, where S3's file is called `tokenizer`. Raises `WeightsError`."""
        self.device, self._tokens, self._speaker = device, _session(folder / tokenizer), _session(folder / SPEAKER)

    def read(self, clip: Clip, sample_rate: int) -> FlowPrompt:
        """What a recording at `sample_rate` is to the flow, on the model's device. Raises `InvalidRequest`."""
        seconds = len(clip.samples) / sample_rate
        if not SHORTEST_CLIP <= seconds <= LONGEST_CLIP:
            raise InvalidRequest(
                f"The recording is {seconds:.1f} seconds long. Please give one of {SHORTEST_CLIP} to {LONGEST_CLIP} seconds."
            )
        samples = clip.samples.float().cpu()
        heard = torch.from_numpy(soxr.resample(samples.numpy(), sample_rate, RATE))
        tokens, speaker, mel = self.tokens(heard), self.speaker(heard), vocoder_mel(samples)
        count = min(len(tokens), len(mel) // RATIO)
        return FlowPrompt(*(part.to(self.device) for part in (speaker, tokens[:count], mel[: RATIO * count])))

    def tokens(self, samples: torch.Tensor) -> torch.Tensor:
        """Speech tokens [n], TOKEN_RATE a second, of samples at RATE."""
        mel = whisper_mel(samples).numpy()[None]
        sound, length = (each.name for each in self._tokens.get_inputs())
        codes = self._tokens.run(None, {sound: mel, length: np.array([mel.shape[2]], np.int32)})[0]
        return torch.from_numpy(codes).long().flatten()

    def speaker(self, samples: torch.Tensor) -> torch.Tensor:
        """The speaker's embedding of samples at RATE."""
        bands = kaldi_fbank(samples)
        bands = (bands - bands.mean(0)).numpy()[None]
        return torch.from_numpy(self._speaker.run(None, {self._speaker.get_inputs()[0].name: bands})[0]).float().flatten()


def _session(path: Path) -> onnxruntime.InferenceSession:
    if not path.exists():
        raise WeightsError(f"{path} is missing. Check the model's folder.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as broken:  # the library has an exception a cause
        reason = str(broken).splitlines()[0]
        raise WeightsError(f"{path} is not a whole ONNX file ({reason}). Fetch it again.") from broken
