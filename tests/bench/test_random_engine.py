"""Models without their weights: they say nothing, for as long as their text would take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.engine.toy import Bench, Toy
from voxrtc.bench import random_engine, random_models
from voxrtc.bench.random_engine import SECONDS_A_WORD, read
from voxrtc.messages.engine import Chunk, Ended, GetStats, Stats
from voxrtc.settings import Settings
from voxrtc.speechlm.base import Placement, SpeechLM, Utterance
from voxrtc.speechlm.codecs.conformer import ConformerConfig
from voxrtc.speechlm.codecs.dit import DiTConfig
from voxrtc.speechlm.codecs.hift import HiftConfig
from voxrtc.speechlm.codecs.token_flow import FlowConfig
from voxrtc.speechlm.codecs.unet import UNetConfig
from voxrtc.speechlm.stepaudio2.ear import EarConfig

NARROW = dict(layers=1, dim=32, heads=2, kv_heads=1, head_dim=16, ffn_dim=32)
ENCODER, HIFT = ConformerConfig(dim=32, heads=2, ffn_dim=32, lower=1, upper=1), HiftConfig(dim=32)
COSY_FLOW = FlowConfig(encoder=ENCODER, estimator=UNetConfig(dim=32, middle=1, depth=1, heads=1, head_dim=32))
STEP_FLOW = FlowConfig(encoder=ENCODER, estimator=DiTConfig(dim=32, layers=1, heads=1, head_dim=32, ffn_dim=32))
QWENS: dict[str, Callable[..., SpeechLM]] = {  # shaped like Qwen2, as it is in full
    "cosyvoice2": partial(
        random_models.cosyvoice2, decoder=replace(random_models.COSYVOICE2, **NARROW), flow=COSY_FLOW, hift=HIFT
    ),
    "step-audio-2-mini": partial(
        random_models.stepaudio2,
        decoder=replace(random_models.STEP_AUDIO_2, **NARROW),
        ear=EarConfig(dim=32, heads=2, layers=1, out=32),
        flow=STEP_FLOW,
        hift=HIFT,
    ),
}


def test_a_piece_lasts_as_long_as_its_words_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(random_engine.MODELS, "csm", lambda dtype, device: Toy())
    info, model = read(Settings(model="csm"), Placement())
    assert info.name == "csm"
    texts = ("international considerations notwithstanding altogether", "one")
    four, one = (model.preprocess(Utterance(text)).max_frames for text in texts)
    assert four == round(4 * SECONDS_A_WORD * model.frame_rate) > one
    assert model.preprocess(Utterance("a")).max_frames == 3, "no more than the model would say"


@pytest.mark.parametrize("name", QWENS)
def test_those_shaped_like_qwen2_sound_and_tell_what_was_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(random_engine.MODELS, name, QWENS[name])
    info, model = read(Settings(model=name), Placement())
    bench = Bench(slots=2, page_size=64, model=model)
    for stream in ("a", "b"):
        bench.speak(stream, "international considerations", seed=1)
    bench.run()
    bench.send(GetStats(call=1), "")
    bench.step()
    for stream in ("a", "b"):
        *sounds, last = bench.replies[stream]
        assert isinstance(last, Ended) and last.frames == round(2 * SECONDS_A_WORD * model.frame_rate)
        assert sum(len(sound.pcm) for sound in sounds if isinstance(sound, Chunk))
    stats = bench.replies[""][-1]
    assert isinstance(stats, Stats) and info.name == name
    assert (stats.recorded, stats.codec_recorded) == (0, 0) and stats.steps and stats.codec_passes
