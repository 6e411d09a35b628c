"""CosyVoice 2 served: the four verbs of `SpeechLM` over `network.Network`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from voxrtc.messages.engine import Sampling
from voxrtc.speechlm import sentences
from voxrtc.speechlm.base import (
    HOST,
    ON_HOST,
    Batch,
    CacheShape,
    Clip,
    Frames,
    InvalidRequest,
    Placement,
    Prompt,
    Sampler,
    SpeechLM,
    Utterance,
)
from voxrtc.speechlm.codecs.flow_detokenizer import FlowDetokenizer
from voxrtc.speechlm.codecs.flow_files import load_flow
from voxrtc.speechlm.codecs.hift_files import load_hift
from voxrtc.speechlm.codecs.token_flow import FlowState
from voxrtc.speechlm.codecs.voice_reader import LONGEST_CLIP, TOKEN_RATE, VoiceReader
from voxrtc.speechlm.cosyvoice2.network import Network
from voxrtc.speechlm.cosyvoice2.prompt import Asked, Voice, rows_of
from voxrtc.speechlm.cosyvoice2.running import TEXT, TURN, read
from voxrtc.speechlm.cosyvoice2.sampling import WINDOW, choose
from voxrtc.speechlm.cosyvoice2.speakable import speakable
from voxrtc.speechlm.cosyvoice2.text import Writer
from voxrtc.speechlm.cosyvoice2.turns import Turns
from voxrtc.speechlm.weights import WeightsError, read_pickle

TOKENIZER = "speech_tokenizer_v2.onnx"
TEXT_TOKENS = 64  # of a piece: 15 to 20 s of English
HEARD_TEXT = 200  # tokens of a recording's text, or of how to speak
HEARD_CODES = 150  # of a recording that the flow hears, the last: what it remembers of a second takes 115 MB
FRAMES = 750  # of a piece at most: 30 s
FRAMES_A_TOKEN = (2, 20)  # of text, at least and at most
PROMPT = TEXT_TOKENS + HEARD_TEXT + LONGEST_CLIP * TOKEN_RATE + 2  # positions


def load_detokenizer(folder: Path, device: torch.device = HOST) -> FlowDetokenizer:
    """The detokenizer alone, of such a folder. Raises `WeightsError`."""
    flow, hift = folder / "flow.pt", folder / "hift.pt"
    return FlowDetokenizer(load_flow(read_pickle(flow), flow, device), load_hift(read_pickle(hift), hift, device))


@dataclass
class CosyVoice2States:
    """Tables with a row a slot of the engine."""

    prompt: Tensor  # [slots, PROMPT] rows of the network's table
    length: Tensor  # [slots] of the prompt
    code: Tensor  # [slots] the latest
    made: Tensor  # [slots] frames so far
    least: Tensor  # [slots] codes before speech may end
    recent: Tensor  # [slots, WINDOW] the latest codes, newest last; -1 where there is none
    turns: Turns  # of slots whose text and codes take turns


class CosyVoice2(SpeechLM):
    """Text, and the codes of a recording if one is to be continued, then a code a step until the model says that speech ends.

    Voices are recordings (`clone`), and so is `default`; until that is set, it speaks as nobody in particular. Of text that is
    still being written it hears five tokens at a time, in turn with fifteen codes; a step that takes in text gives a frame that
    makes no sound.
    """

    runs = clones = instructed = True
    codebooks = 1
    voices = ("default",)
    frame_rate = float(TOKEN_RATE)
    defaults = Sampling(temperature=1.0, top_k=25, top_p=0.8, min_p=0.0, repetition_penalty=1.0)

    def __init__(self, network: Network, writer: Writer, detokenizer: FlowDetokenizer, reader: VoiceReader) -> None:
        self.network, self.writer, self.detokenizer, self.reader = network, writer, detokenizer, reader
        self.device, self.dtype = network.embed.weight.device, network.dtype
        self.cache = CacheShape.of(network.decoder.config)
        self.default = Voice(detokenizer.flow.prime(detokenizer.nobody))  # until there is a recording of somebody

    @classmethod
    def load(cls, folder: Path, at: Placement = ON_HOST) -> CosyVoice2:
        """Read a folder like `FunAudioLLM/CosyVoice2-0.5B`. Raises `WeightsError`.

        `at.dtype` is that of the language model; flow and HiFT stay in float32.
        """
        network, writer = Network.load(folder, PROMPT + FRAMES, at), Writer.load(folder / "CosyVoice-BlankEN")
        if writer.size > network.rows.texts:
            raise WeightsError(f"{folder} has {writer.size} text tokens and rows for {network.rows.texts}. Fetch it again.")
        detokenizer = load_detokenizer(folder, at.detokenizer)
        if detokenizer.flow.config.codes != network.rows.codes:
            raise WeightsError(f"{folder}: llm.pt and flow.pt disagree about speech tokens. Fetch both again.")
        return cls(network, writer, detokenizer, VoiceReader(folder, TOKENIZER, detokenizer.device))

    def split(self, text: str) -> list[str]:
        return sentences.pieces(speakable(text, final=True).text, lambda piece: len(self.writer.ids(piece)) <= TEXT_TOKENS)

    def preprocess(self, utterance: Utterance) -> Prompt:
        text, instruction = self.writer.ids(utterance.text), self.writer.instruction(utterance.instructions)
        assert len(text) <= TEXT_TOKENS, f"{len(text)} ids in a piece"
        if len(instruction) > HEARD_TEXT:
            raise InvalidRequest("The words that say how to speak are too many. Please use fewer.")
        voice: Voice = utterance.imitation or self.default
        rows = rows_of(self.network.rows, text, voice, instruction)
        least, most = (rate * len(text) for rate in FRAMES_A_TOKEN)
        return Prompt(len(rows), min(FRAMES, most), Asked(rows, least, voice))

    def extend(self, prompt: Prompt | None, utterance: Utterance, final: bool) -> Prompt | None:
        script = read(self.writer, utterance.text, final)
        if script is None or not (script.turns or script.whole):
            return None
        voice: Voice = utterance.imitation or self.default
        if not script.turns:
            whole = self.preprocess(replace(utterance, text=script.said, imitation=voice.unheard()))
            return replace(whole, characters=script.characters)
        rows = torch.tensor([self.network.rows.start, *script.ids[:TEXT]])
        frames, reach = FRAMES, script.turns
        if script.whole:
            frames, reach = min(FRAMES, TURN * script.turns + FRAMES_A_TOKEN[1] * len(script.ids)), None
        asked = Asked(rows, 0, voice, script)
        return Prompt(len(rows), frames, asked, words=script.words, reach=reach, characters=script.characters)

    def passes(self, frame: Tensor) -> int:
        return int(frame[0] == self.network.rows.fill)

    def silent(self, frame: Tensor) -> bool:
        return int(frame[0]) >= self.network.rows.end

    def clone(self, clip: Clip) -> Voice:
        text = self.writer.ids(speakable(" ".join(clip.text.split()), final=True).text)
        if len(text) > HEARD_TEXT:
            raise InvalidRequest("The recording's text is too long. Please give a shorter recording with its text.")
        heard = self.reader.read(clip, self.detokenizer.sample_rate)
        sound = self.detokenizer.flow.prime(heard.last(HEARD_CODES))
        if not all(bool(part.rows.isfinite().all()) for part in sound.solver.past):  # also: wait for it, on a GPU
            raise InvalidRequest("No voice could be made of this recording. Please give another one.")
        return Voice(sound, tuple(text), tuple(heard.tokens.cpu().tolist()))

    def size(self, imitation: Voice) -> int:
        return imitation.sound.bytes

    def voice_of(self, prompt: Prompt) -> FlowState:
        asked: Asked = prompt.data
        return asked.voice.sound

    def new_states(self, slots: int) -> CosyVoice2States:
        count = torch.zeros(slots, dtype=torch.long, device=self.device)
        prompt = torch.zeros(slots, PROMPT, dtype=torch.long, device=self.device)
        recent = torch.full((slots, WINDOW), -1, device=self.device)
        turns = Turns.new(slots, self.network.rows, self.device)
        return CosyVoice2States(prompt, count, count.clone(), count.clone(), count.clone(), recent, turns)

    def admit(self, states: CosyVoice2States, slot: int, prompt: Prompt) -> None:
        asked: Asked = prompt.data
        states.prompt[slot, : prompt.length] = asked.rows
        states.length[slot], states.made[slot], states.least[slot] = prompt.length, 0, asked.least
        states.recent[slot] = -1
        states.turns.put(slot, asked.script)

    def grow(self, states: CosyVoice2States, slot: int, prompt: Prompt) -> None:
        states.turns.put(slot, prompt.data.script)

    def forward(self, batch: Batch, states: CosyVoice2States) -> Tensor:
        rows = batch.rows
        prompt = states.prompt[rows, batch.positions.clamp(max=PROMPT - 1)]
        said = states.turns.rows(rows, states.made[rows], self.network.rows.texts + states.code[rows])
        inputs = torch.where(batch.positions < states.length[rows], prompt, said)
        hidden = self.network(inputs, batch.positions, batch.attention)
        return hidden if batch.decode_only else hidden[batch.ends]

    def sample(self, hidden: Tensor, slots: Tensor, states: CosyVoice2States, sampler: Sampler) -> Frames:
        end = self.network.rows.end
        scores = self.network.head(hidden)[:, : end + 1].clone()
        made, recent = states.made[slots], states.recent[slots]
        early = (made < states.least[slots]) | ~states.turns.may_end(slots, made)
        scores[:, end] = scores[:, end].masked_fill(early, -torch.inf)
        said = choose(scores, recent, sampler)
        code, silent = states.turns.frames(slots, made, said)
        states.code[slots] = torch.where(silent, states.code[slots], said)
        states.recent[slots] = torch.where(silent[:, None], recent, torch.cat((recent[:, 1:], said[:, None]), 1))
        states.made[slots] += 1
        return Frames(code[:, None], code == end)
