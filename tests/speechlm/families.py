"""Models and detokenizers of every family, for the tests that all must pass: those that ship, or tiny ones made by oracles."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from tests.tiny import GOLDEN, write
from voxrtc.settings import ROOT
from voxrtc.speechlm import registry
from voxrtc.speechlm.base import HOST, ON_HOST, Detokenizer, Placement, Prompt, SpeechLM, Utterance
from voxrtc.speechlm.codecs.dit_files import load_dit_flow
from voxrtc.speechlm.codecs.flow import Solver
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer
from voxrtc.speechlm.codecs.flow_files import load_flow
from voxrtc.speechlm.codecs.hift_files import load_hift
from voxrtc.speechlm.codecs.mimi_files import load_mimi, mimi_config
from voxrtc.speechlm.codecs.mimi_tokens import MimiTokens
from voxrtc.speechlm.codecs.snac import Snac
from voxrtc.speechlm.codecs.token_flow import TokenFlow
from voxrtc.speechlm.cosyvoice2.model import CosyVoice2
from voxrtc.speechlm.csm.model import Csm, CsmDetokenizer
from voxrtc.speechlm.lark.detokenizer import Codebooks, Decoder, LarkDetokenizer
from voxrtc.speechlm.orpheus import Orpheus, OrpheusDetokenizer
from voxrtc.speechlm.pocket.model import Pocket
from voxrtc.speechlm.stepaudio2.model import StepAudio2
from voxrtc.speechlm.weights import read_folder, read_json, read_pickle

POCKETS = ("plain", "drifting", "pointwise")
RECORDED = ("orpheus", "csm", "pocket")  # whose detokenizers can be, as a device records them
TOLERANCE = 1e-5  # of sound; the interface promises 1e-4
VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")


def write_orpheus(folder: Path) -> Path:
    """The tiny checkpoint, laid out as the real one."""
    write("snac", folder / "snac")
    return write("orpheus", folder)


def tiny_orpheus(folder: Path, at: Placement = ON_HOST) -> Orpheus:
    """From a folder that `write_orpheus` wrote."""
    return Orpheus.load(folder, VOICES, at)


def write_stepaudio2(folder: Path) -> Path:
    """The tiny checkpoint, laid out as the real one: its tokenizer with the tokens of codes."""
    tokenizer = json.loads((write("stepaudio2", folder) / "tokenizer.json").read_text())
    codes = {f"<audio_{code}>": 151_696 + code for code in range(6562)}
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer["model"]["vocab"] |= codes
    tokenizer["added_tokens"] += [{"id": id, "content": name, "special": True, **plain} for name, id in codes.items()]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    place = write("dit", folder / "token2wav")
    for ours, theirs in (("campplus", "campplus"), ("speech_tokenizer_v2_25hz", "speech_tokenizer_v2")):
        shutil.copy(GOLDEN / "cosyvoice2" / f"{theirs}.onnx", place / f"{ours}.onnx")
    return folder


def tiny_stepaudio2(folder: Path, at: Placement = ON_HOST) -> StepAudio2:
    """From a folder that `write_stepaudio2` wrote."""
    model = StepAudio2.load(folder, at)
    quick(model.detokenizer.flow)
    return model


def brief_stepaudio2(folder: Path, at: Placement = ON_HOST) -> SpeechLM:
    """The tiny one, which finds no end, of twelve frames at most."""
    model = tiny_stepaudio2(write_stepaudio2(folder), at)
    limit(model, 12)
    return model


def tiny_csm(folder: Path, at: Placement = ON_HOST) -> Csm:
    """From a folder that `write("csm", folder)` wrote."""
    return Csm.load(folder, ("0", "1", "7"), at)


def tiny_pocket(name: str, at: Placement = ON_HOST) -> Pocket:
    """One of `POCKETS`, from the checkpoint that the package made."""
    return Pocket.load(GOLDEN / "pocket" / "languages" / name, at)


def tiny_mimi(folder: Path) -> MimiTokens:
    """From the tiny checkpoint in transformers' layout."""
    write("mimi", folder)
    return load_mimi(mimi_config(read_json(folder / "config.json")), read_folder(folder), folder, HOST)


def lark(folder: Path, at: Placement = ON_HOST) -> SpeechLM:
    """The one that ships."""
    return registry.load(ROOT / "models", "lark", at)[1]


def brief_orpheus(folder: Path, at: Placement = ON_HOST) -> SpeechLM:
    """The tiny one, of twelve frames at most: its random weights find no end, and every token is a step."""
    model = tiny_orpheus(write_orpheus(folder), at)
    limit(model, 7 * 12)
    return model


def brief_csm(folder: Path, at: Placement = ON_HOST) -> SpeechLM:
    """The tiny one, which finds no end either, of twelve frames at most."""
    model = tiny_csm(write("csm", folder), at)
    limit(model, 12)
    return model


def pocket(name: str, folder: Path, at: Placement = ON_HOST) -> SpeechLM:
    """One of `POCKETS`, which stays in float32."""
    return tiny_pocket(name, at)


def tiny_flow(folder: Path) -> FlowDetokenizer:
    """From the tiny checkpoint in CosyVoice 2's layout."""
    write("flow", folder)
    flow, hift = folder / "flow.pt", folder / "hift.pt"
    return FlowDetokenizer(quick(load_flow(read_pickle(flow), flow, HOST)), load_hift(read_pickle(hift), hift, HOST))


def tiny_dit(folder: Path) -> FlowDetokenizer:
    """From the tiny checkpoint in the layout of Step-Audio 2's `token2wav`."""
    hift = write("dit", folder) / "hift.pt"
    return FlowDetokenizer(quick(load_dit_flow(folder, HOST)), load_hift(read_pickle(hift), hift, HOST))


def quick(flow: TokenFlow) -> TokenFlow:
    """With two of the solver's steps; more would do the same again."""
    flow.solve = Solver(steps=2)
    flow.prepare()
    return flow


def tiny_cosyvoice2(folder: Path, at: Placement = ON_HOST) -> CosyVoice2:
    """From a folder that `write("cosyvoice2", folder)` wrote."""
    model = CosyVoice2.load(folder, at)
    quick(model.detokenizer.flow)
    return model


def brief_cosyvoice2(folder: Path, at: Placement = ON_HOST) -> SpeechLM:
    """The tiny one, which hardly finds an end, of twelve frames at most."""
    model = tiny_cosyvoice2(write("cosyvoice2", folder), at)
    limit(model, 12)
    return model


def limit(model: SpeechLM, frames: int) -> None:
    """From now on `model` speaks at most that many frames a piece."""
    preprocess = model.preprocess

    def short(utterance: Utterance) -> Prompt:
        prompt = preprocess(utterance)
        return replace(prompt, max_frames=min(frames, prompt.max_frames))

    model.preprocess = short  # type: ignore[method-assign]


MODELS: dict[str, Callable[..., SpeechLM]] = {  # of a folder to work in, and if need be a `Placement`
    "lark": lark,
    "orpheus": brief_orpheus,
    "cosyvoice2": brief_cosyvoice2,
    "csm": brief_csm,
    "stepaudio2": brief_stepaudio2,
    **{f"pocket-{name}": partial(pocket, name) for name in POCKETS},
}


def detokenizer_of(name: str, folder: Path, device: torch.device) -> Detokenizer:
    """That of one of `MODELS`, which worked in `folder`, as a process of its own reads it."""
    family, _, language = name.partition("-")
    if family == "lark":
        return registry.load_detokenizer(ROOT / "models", "lark", device)
    place = GOLDEN / "pocket" / "languages" / language if language else folder
    detokenizer = registry.DETOKENIZERS[family](place, device)
    if isinstance(detokenizer, FlowDetokenizer):
        quick(detokenizer.flow)
    return detokenizer


def pocket_voice(name: str, folder: Path) -> Voice:
    """The detokenizer of a tiny Pocket-TTS."""
    model = tiny_pocket(name)
    return Voice(model.detokenizer, latent=model.network.config.latent, noise=False)


def random_lark() -> dict[str, Tensor]:
    """Random weights of Lark's detokenizer under its file's names; a third of the pitches is unvoiced."""
    torch.manual_seed(0)
    codebooks, decoder = Codebooks(), Decoder()
    for parameter in codebooks.parameters():
        parameter.data.normal_(std=0.3)
    hertz = torch.rand(512, 2) * 300 + 60
    hertz[::3] = 0.0
    codebooks.f0.data = hertz.log1p()
    parts = {"codebooks": codebooks, "decoder": decoder}
    return {f"{part}.{name}": value for part, module in parts.items() for name, value in module.state_dict().items()}


@dataclass(frozen=True)
class Voice:
    """A detokenizer, and the sizes of its codebooks or how wide its latents are; `noise`: it draws some, by its seed."""

    detokenizer: Detokenizer
    sizes: tuple[int, ...] = ()
    latent: int = 0
    noise: bool = True

    def utterance(self, frames: int, seed: int = 0) -> Tensor:
        """Random codes [frames, codebooks], or latents [frames, latent]."""
        generator = torch.Generator().manual_seed(seed)
        if self.latent:
            return torch.randn(frames, self.latent, generator=generator)
        return (torch.rand(frames, len(self.sizes), generator=generator) * torch.tensor(self.sizes)).long()

    def whole(self, codes: Tensor, seed: int = 0) -> Tensor:
        """Its sound in one call, alone."""
        return self.detokenizer.decode([codes], [self.detokenizer.new_state(seed)], [True])[0]


DETOKENIZERS: dict[str, Callable[[Path], Voice]] = {
    "lark": lambda folder: Voice(LarkDetokenizer(random_lark()), (2, 512, 512, 512, 512, 512, 256)),
    "mimi": lambda folder: Voice(tiny_mimi(folder), (2048,) * 32, noise=False),
    "csm": lambda folder: Voice(CsmDetokenizer(tiny_mimi(folder)), (2048,) * 32, noise=False),
    "snac": lambda folder: Voice(Snac.load(write("snac", folder)), (4096,) * 7),
    "orpheus": lambda folder: Voice(OrpheusDetokenizer(Snac.load(write("snac", folder))), (4096,)),
    **{f"pocket-{name}": partial(pocket_voice, name) for name in POCKETS},
    "flow": lambda folder: Voice(tiny_flow(folder), (6561,)),
    "dit": lambda folder: Voice(tiny_dit(folder), (6561,)),
}


def speak(voice: Voice, history: list[tuple[int, list[int]]]) -> list[list[Tensor]]:
    """The sound of each stream, by calls in which all have a part that have joined and are not over.

    `history` tells when each joins, and its chunks in frames, the last of which is final; a stream's seed is its place.
    """
    states = [voice.detokenizer.new_state(i) for i in range(len(history))]
    parts = [voice.utterance(sum(chunks), seed=i).split(chunks) for i, (_, chunks) in enumerate(history)]
    streamed: list[list[Tensor]] = [[] for _ in history]
    for call in range(max(join + len(chunks) for join, chunks in history)):
        turn = {i: call - join for i, (join, chunks) in enumerate(history) if 0 <= call - join < len(chunks)}
        if not turn:
            continue
        final = [k + 1 == len(parts[i]) for i, k in turn.items()]
        sounds = voice.detokenizer.decode([parts[i][k] for i, k in turn.items()], [states[i] for i in turn], final)
        for i, sound in zip(turn, sounds, strict=True):
            streamed[i].append(sound)
    return streamed


def assert_same(streamed: list[Tensor], expected: Tensor) -> None:
    sound = torch.cat(streamed)
    assert sound.shape == expected.shape and sound.dtype == torch.float32
    assert not len(sound) or (sound - expected).abs().max() <= TOLERANCE
