"""Our engine over a model at its full size with random weights: `python -m voxrtc.bench.random_engine --listen ipc://…`.

What is computed costs the same as with real weights, so throughput and latency can be had where weights cannot. Such a model
says nothing and never stops by itself, so a piece lasts as long as its words would.
"""

from __future__ import annotations

import argparse
import logging
import threading
from dataclasses import replace
from functools import partial

from voxrtc.bench import random_models
from voxrtc.cards import read_card
from voxrtc.engine.process import load
from voxrtc.engine.server import EngineServer
from voxrtc.lifeline import die_with_parent
from voxrtc.messages.model import ModelInfo
from voxrtc.niceness import give_way
from voxrtc.settings import Settings
from voxrtc.speechlm.base import Placement, Prompt, SpeechLM, Utterance

SECONDS_A_WORD = 0.35
MODELS = {
    "orpheus": random_models.orpheus,
    "csm": random_models.csm,
    "cosyvoice2": random_models.cosyvoice2,  # this one's decoder and the next one's are Qwen2's
    "step-audio-2-mini": partial(random_models.stepaudio2, decoder=random_models.STEP_AUDIO_2_WHOLE),
}


def read(settings: Settings, at: Placement) -> tuple[ModelInfo, SpeechLM]:
    """The model of the settings, without its weights. Raises `KeyError` for one that is not in `MODELS`."""
    if settings.disaggregated or at.detokenizer != at.device:
        raise ValueError("Both stages of a model without weights are in one place.")
    model = MODELS[settings.model](at.dtype, at.device)
    preprocess = model.preprocess

    def as_long_as_its_words(utterance: Utterance) -> Prompt:
        prompt = preprocess(utterance)
        words = " ".join([utterance.text, *(said.text for said in utterance.conversation)]).split()
        frames = round(SECONDS_A_WORD * len(words) * model.frame_rate)
        return replace(prompt, max_frames=max(1, min(prompt.max_frames, frames)))

    model.preprocess = as_long_as_its_words  # type: ignore[method-assign]
    return read_card(settings.models, settings.model).info, model


def main() -> None:
    """Serve the model of the settings, like `engine.process`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True)
    settings, arguments = Settings(), parser.parse_args()
    logging.basicConfig(level=settings.log_level)
    die_with_parent()
    give_way(5)
    server = EngineServer(settings.model, arguments.listen)
    threading.Thread(target=load, args=(settings, server, False, read), name="loading", daemon=True).start()
    server.serve()


if __name__ == "__main__":
    main()
