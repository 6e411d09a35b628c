"""HiFT streamed exactly: the samples of one call on the whole spectrogram, however it comes.

A sample hangs on `MARGIN` frames at either side, no more. So a call runs the generator on the new frames and those margins, and
what is within a margin of where the stretch is cut is not used: the last frames of the spectrogram and of the excitation are
kept and computed twice. Others cut at 8 frames and fade from one rendition to the next, which loses sound or blurs it. It costs
`LAG` frames, 0.4 s of sound that a listener gets later; a block of the flow is a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from voxrtc.speechlm.codecs.hift import MARGIN, SAMPLES, Hift, HiftConfig, by_length
from voxrtc.speechlm.codecs.hift_source import REACH, Excitation, Pitch, PitchPredictor
from voxrtc.speechlm.codecs.noise import Noise

LAG = MARGIN + REACH + 1  # frames that must follow one: its excitation wants the next frame's pitch


@dataclass
class HiftState:
    """One stream between calls."""

    noise: Noise
    mel: Tensor  # frames that are still of use, the last ones
    source: Tensor  # the excitation from the first of them on
    pitch: Pitch
    frames: int = 0  # that have come
    given: int = 0  # of them, frames whose samples are out

    @property
    def first(self) -> int:
        """Number of the first frame that is still of use."""
        return self.frames - len(self.mel)


class HiftVocoder(nn.Module):
    """Mel frames -> samples."""

    def __init__(self, config: HiftConfig, pitch_dim: int, harmonics: int) -> None:
        super().__init__()
        self.pitch, self.excitation = PitchPredictor(config.mel, pitch_dim), Excitation(harmonics)
        self.generator = Hift(config)

    def begin(self, noise: Noise) -> HiftState:
        """A stream of which nothing has come; rows of `noise` are `Excitation.noise_width` wide."""
        none = self.generator.enter.weight
        return HiftState(noise, none.new_zeros(0, self.generator.config.mel), none.new_zeros(0), self.excitation.begin())

    @torch.inference_mode()
    def forward(self, mels: Sequence[Tensor], states: Sequence[HiftState], final: Sequence[bool]) -> list[Tensor]:
        """New frames [n_i, mel] of each stream -> samples, SAMPLES for each frame that `LAG` follow; all if `final`.

        States advance in place, at the end: a call that raises has moved none.
        """
        ahead = [
            replace(state, mel=torch.cat((state.mel, mel)), frames=state.frames + len(mel))
            for state, mel in zip(states, mels, strict=True)
        ]
        for places in by_length([state.mel for state in ahead]):
            hertz = self.pitch(torch.stack([ahead[place].mel for place in places]))
            for place, pitches in zip(places, hertz, strict=True):
                self._excite(ahead[place], pitches, final[place])
        ends = [_end(state, last) for state, last in zip(ahead, final, strict=True)]
        samples = self._generate(ahead, ends, final)
        for state, new, end in zip(states, ahead, ends, strict=True):
            _forget(new, end)
            vars(state).update(vars(new))
        return samples

    def _excite(self, state: HiftState, hertz: Tensor, final: bool) -> None:
        """Take the excitation on to where pitches are known; `hertz` are those of all frames that are still of use."""
        until = state.frames if final else max(state.pitch.frames, state.frames - REACH)
        new = hertz[state.pitch.frames - state.first : until - state.first]
        if len(new) or final:
            samples, state.pitch = self.excitation(new, state.pitch, state.noise, final)
            state.source = torch.cat((state.source, samples))

    def _generate(self, states: Sequence[HiftState], ends: Sequence[int], final: Sequence[bool]) -> list[Tensor]:
        """Samples of the frames from those that are out up to `ends`."""
        stretches = [
            state.mel[: 0 if end == state.given else (end if last else end + MARGIN) - state.first]
            for state, end, last in zip(states, ends, final, strict=True)
        ]
        samples = [state.source[:0] for state in states]
        for places in by_length(stretches):
            count = len(stretches[places[0]])
            sources = [states[place].source[: count * SAMPLES] for place in places]
            made = self.generator(torch.stack([stretches[place] for place in places]), torch.stack(sources))
            for place, sound in zip(places, made, strict=True):
                state = states[place]
                samples[place] = sound[(state.given - state.first) * SAMPLES : (ends[place] - state.first) * SAMPLES]
        return samples


def _end(state: HiftState, final: bool) -> int:
    """The frame up to which the excitation is there and enough follows."""
    return state.frames if final else max(state.given, state.frames - LAG)


def _forget(state: HiftState, given: int) -> None:
    """Count the frames up to `given`, and keep of the rest what later samples hang on."""
    gone = max(0, given - MARGIN) - state.first
    state.mel, state.source, state.given = state.mel[gone:].clone(), state.source[gone * SAMPLES :].clone(), given
