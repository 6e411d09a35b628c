"""Where two blocks of a flow meet, nothing is heard: measured on sound, for every estimator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.speechlm.families import tiny_dit, tiny_flow
from tests.speechlm.test_hift import flux, flux_at
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer

BLOCK, BLOCKS = 25, 7


@pytest.mark.parametrize("tiny", [tiny_flow, tiny_dit])
def test_spectra_change_no_more_where_blocks_meet(
    tiny: Callable[[Path], FlowDetokenizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a held vowel, of a steady pitch. Blocks that know nothing of the ones before are heard, or the measure were none."""
    detokenizer = tiny(tmp_path)
    monkeypatch.setattr(detokenizer.hift.pitch, "forward", lambda mel: torch.full(mel.shape[:2], 130.0))

    def sound(blocks: int) -> Tensor:
        state, vowel = detokenizer.new_state(0), torch.full((BLOCK, 1), 1000)
        parts = [detokenizer.decode([vowel], [state], [i + 1 == blocks])[0] for i in range(blocks)]
        return torch.cat(parts)

    whole, cut = sound(BLOCKS), sound(1).repeat(BLOCKS)
    assert len(whole) == len(cut) == BLOCKS * BLOCK * detokenizer.samples_per_group
    joints = [2 * BLOCK * i for i in range(2, BLOCKS)]
    most = flux(whole).quantile(0.99)
    assert flux_at(whole, joints).max() <= most < flux_at(cut, joints).min()
