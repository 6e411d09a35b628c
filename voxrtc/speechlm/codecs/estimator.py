"""What a flow's solver asks for velocities, behind one interface: a `UNet` for CosyVoice 2, a `DiT` for Step-Audio 2.

At each of the solver's steps it is another network to a stream's memory, which is therefore kept step by step; and what its
layers are told of the time is known before anything comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from voxrtc.speechlm.codecs.blocks import BlockCall


class Estimator(nn.Module, ABC):
    """Velocities of mel frames."""

    @abstractmethod
    def prepare(self, times: Tensor) -> None:
        """Compute what its layers are told at each of the times [steps]. After its weights are filled."""

    @abstractmethod
    def forward(self, x: Tensor, number: int, call: BlockCall) -> Tensor:
        """[batch, rows, inputs] at step `number` -> velocities [batch, rows, mel].

        Inputs are the sample so far, the encoder's frame, the speaker, the prompt's frame, each as wide as a frame.
        """


class EstimatorConfig(Protocol):
    """Shape of one."""

    @property
    def mel(self) -> int:
        """Width of a frame."""
        ...

    def build(self) -> Estimator:
        """Without weights."""
        ...


@dataclass(frozen=True)
class Step:
    """One of the solver's steps, in a call."""

    number: int
    told: Tensor  # [layers, width] of its time
    call: BlockCall
    attentions: int  # in the network
    convolutions: int

    def attend(self, number: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """`BlockCall.attend` of an attention at this step."""
        return self.call.attend(self.number * self.attentions + number, q, k, v)

    def behind(self, number: int, x: Tensor, reach: int) -> Tensor:
        """`BlockCall.behind` of a convolution at this step."""
        return self.call.behind(self.number * self.convolutions + number, x, reach)


class Convolution(nn.Module):
    """Three taps: this row and the two before. `number` is its place in the network."""

    def __init__(self, channels: int, out: int, number: int) -> None:
        super().__init__()
        self.number, self.taps = number, nn.Conv1d(channels, out, 3)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """[batch, rows, channels] -> [batch, rows, out]."""
        return self.taps(step.behind(self.number, x, 2).transpose(1, 2)).transpose(1, 2)
