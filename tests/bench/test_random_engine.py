"""Models without their weights: they say nothing, for as long as their text would take."""

from __future__ import annotations

import pytest

from tests.engine.toy import Toy
from voxrtc.bench import random_engine
from voxrtc.bench.random_engine import SECONDS_A_WORD, read
from voxrtc.settings import Settings
from voxrtc.speechlm.base import Utterance
from voxrtc.speechlm.registry import Placement


def test_a_piece_lasts_as_long_as_its_words_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(random_engine.MODELS, "csm", lambda dtype, device, sound: Toy())
    info, model = read(Settings(model="csm"), Placement())
    assert info.name == "csm"
    texts = ("international considerations notwithstanding altogether", "one")
    four, one = (model.preprocess(Utterance(text)).max_frames for text in texts)
    assert four == round(4 * SECONDS_A_WORD * model.frame_rate) > one
    assert model.preprocess(Utterance("a")).max_frames == 3, "no more than the model would say"
