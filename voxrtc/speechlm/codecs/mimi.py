"""Mimi (Moshi, arXiv 2410.00037, section 3.3) around its quantizer: frames of features -> samples, streamed exactly; and
samples -> frames, at once.

To decode, frames are upsampled to the rate of a transformer that sees a few seconds back, then SEANet makes sound of them.
All is causal: a frame's samples need nothing that follows it. The encoder is the mirror image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from voxrtc.speechlm.codecs.causal import Call, CausalConv, ChannelUpsample, Context, LaneCall, number, width
from voxrtc.speechlm.codecs.lanes import InLanes, Lanes, LaneState, Shape
from voxrtc.speechlm.codecs.seanet import SeanetConfig, SeanetDecoder, SeanetEncoder
from voxrtc.speechlm.codecs.sliding import History, LaneAttention, SlidingTransformer
from voxrtc.speechlm.detokenizer import Repeat
from voxrtc.speechlm.layers.decoder import DecoderConfig


@dataclass(frozen=True)
class MimiConfig:
    """Shape of a decoder or an encoder. `transformer.positions` is how many rows it sees."""

    upsample: int  # rows a frame
    transformer: DecoderConfig
    seanet: SeanetConfig

    @property
    def samples_per_frame(self) -> int:
        return self.upsample * self.seanet.hop


@dataclass
class MimiState:
    """One stream between calls."""

    context: Context
    history: History


class MimiDecoder(nn.Module):
    """From frames of features, [frames, dim], on."""

    def __init__(self, config: MimiConfig) -> None:
        super().__init__()
        assert config.transformer.dim == config.seanet.dim
        self.config = config
        self.upsample = ChannelUpsample(config.seanet.dim, config.upsample)
        self.transformer = SlidingTransformer(config.transformer)
        self.seanet = SeanetDecoder(config.seanet)
        self._lanes: InLanes | None = None
        number(self)

    def record(self, streams: int, repeat: Repeat) -> None:
        """See `Detokenizer.record`."""
        frame = torch.zeros(self.config.seanet.dim, device=self.upsample.taps.device)
        shape = Shape(frame, width(self) + self.transformer.width, self.config.samples_per_frame)
        self._lanes = InLanes(self._in_lanes, shape, streams, repeat)

    def new_state(self) -> MimiState | LaneState:
        """State of a stream of which nothing has come."""
        if self._lanes:
            return self._lanes.new_state()
        device = self.upsample.taps.device
        return MimiState(Context(self, device), History(self.config.transformer, device))

    def forward(self, x: Tensor, states: Sequence[Any], counts: Sequence[int]) -> list[Tensor]:
        """New frames [sum(counts), dim], `counts[i]` of stream i -> their samples [counts[i] * samples_per_frame].

        Moves the states on, at the end.
        """
        if not len(x):
            return [x.new_empty(0) for _ in states]
        if self._lanes:
            return self._lanes.decode(x.split(list(counts)), states, [False] * len(states))
        call = Call([state.context for state in states], counts)
        x = self.upsample(x, call)
        attention = self.transformer.attention([state.history for state in states], call.counts)
        samples = self.seanet(self.transformer(x, attention), call)
        call.commit()
        attention.commit()
        return list(samples.split([count * self.config.samples_per_frame for count in counts]))

    def _in_lanes(self, x: Tensor, lanes: Lanes) -> Tensor:
        call = LaneCall(lanes)
        x = self.upsample(x, call)
        attention = LaneAttention(lanes, self.config.upsample, self.config.transformer)
        return self.seanet(self.transformer(x, attention), call)


class MimiEncoder(nn.Module):
    """Samples of a whole recording -> frames [frames, out]."""

    def __init__(self, config: MimiConfig, out: int) -> None:
        super().__init__()
        self.config = config
        self.seanet = SeanetEncoder(config.seanet)
        self.transformer = SlidingTransformer(config.transformer)
        self.downsample = CausalConv(config.seanet.dim, out, 2 * config.upsample, stride=config.upsample, bias=False)
        number(self)

    def forward(self, samples: Tensor) -> Tensor:
        """[n] -> [ceil(n / samples_per_frame), out]; silence fills up the last frame."""
        missing = -len(samples) % self.config.samples_per_frame
        x = torch.cat([samples, samples.new_zeros(missing)])[:, None]
        context, history = Context(self, samples.device), History(self.config.transformer, samples.device)
        call = Call([context], [len(x)])
        x = self.seanet(x, call)
        x = self.transformer(x, self.transformer.attention([history], call.counts))
        context.rows[self.downsample.index][:] = x[0]  # before the first row there are copies of it
        return self.downsample(x, call)
