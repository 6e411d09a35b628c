"""Flow and HiFT together: a minute in blocks has no seams, does not drift and takes no more memory than a few seconds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.speechlm.families import tiny_dit, tiny_flow
from tests.speechlm.test_flow import speech, voice
from tests.speechlm.test_hift import flux
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer, FlowSoundState
from voxrtc.speechlm.codecs.hift_stream import LAG
from voxrtc.speechlm.codecs.noise import GivenNoise

SECONDS = 60


@pytest.fixture(scope="module", params=[tiny_flow, tiny_dit])
def detokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FlowDetokenizer:
    return request.param(tmp_path_factory.mktemp("flow"))


def changes(samples: Tensor) -> Tensor:
    """How much the spectrum changes near each 10 ms, at the most."""
    change = flux(samples)
    return torch.stack((change[:-2], change[1:-1], change[2:])).amax(0)


def seams(samples: Tensor, frames: list[int]) -> tuple[float, float]:
    """Changes where these frames begin against those anywhere: the median's, and what share is among the largest tenth."""
    every = changes(samples)
    here = every[torch.tensor([2 * frame - 2 for frame in frames])]
    return float(here.median() / every.median()), float((here > every.quantile(0.9)).float().mean())


def test_a_minute_has_no_seams_and_does_not_drift(detokenizer: FlowDetokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the flow's blocks meet, nor where the sound of two calls does. Sound that is made second by second has some.

    Of a steady voice, whose tokens change every two seconds: in a random one they would not be noticed.
    """
    monkeypatch.setattr(detokenizer.hift.pitch, "forward", lambda mel: torch.full(mel.shape[:2], 130.0))
    primed, said = detokenizer.flow.prime(voice(50, 1)), speech(SECONDS).repeat_interleave(50)[: 25 * SECONDS, None].split(25)

    def begin() -> FlowSoundState:
        state = detokenizer.new_state(3, primed)
        state.flow.noise = GivenNoise(torch.zeros(50 * (SECONDS + 2), 80))
        return state

    state, parts, sizes = begin(), [], []
    for codes in said:
        [samples] = detokenizer.decode([codes], [state], [codes is said[-1]])
        parts.append(samples)
        sizes.append(state.flow.bytes + state.hift.mel.nbytes + state.hift.source.nbytes)
    whole = torch.cat(parts)
    assert len(whole) == SECONDS * 24_000 and len(set(sizes[3:-1])) == 1
    level = torch.stack([part.std() for part in whole.split(24_000)])
    assert abs(level[40:].mean() / level[5:25].mean() - 1) < 0.05, "it drifts"

    borders = [50 * second for second in range(1, SECONDS)]
    for frames in (borders, [border - LAG for border in borders]):
        median, large = seams(whole, frames)
        assert median < 1.1 and large < 0.1
    cut = detokenizer.decode(list(said[:8]), [begin() for _ in range(8)], [True] * 8)
    median, large = seams(torch.cat(cut), borders[:7])
    assert median > 1.3 and large > 0.9, "that is how it would be noticed"
