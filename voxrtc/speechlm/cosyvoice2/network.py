"""CosyVoice 2's language model (arXiv 2412.10117, section 2.2): a Qwen2 over text tokens, speech tokens and two marks.

One table holds the rows of all three, text first; what is chosen are speech tokens and what ends them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from voxrtc.speechlm.base import Placement
from voxrtc.speechlm.layers.attention import Attention
from voxrtc.speechlm.layers.decoder import Decoder, DecoderConfig
from voxrtc.speechlm.layers.linear import pack_all
from voxrtc.speechlm.llama import decoder_config, decoder_table
from voxrtc.speechlm.weights import WeightsError, load_module, read_json, read_pickle

MOST_ROWS = 128  # of a step that is not out of the ordinary
EXTRA = 3  # speech tokens that are no codes: the end, one that training left unused, and “more text, please”
LLM, TEXT_HEAD = "llm.model.model.", "llm.model.lm_head.weight"


@dataclass(frozen=True)
class Rows:
    """Where in the table what begins."""

    texts: int
    codes: int

    @property
    def end(self) -> int:
        """The speech token that ends speech."""
        return self.codes

    @property
    def none(self) -> int:
        """The one that training left unused: here it says that a step took in text."""
        return self.codes + 1

    @property
    def fill(self) -> int:
        """The speech token that asks for more text."""
        return self.codes + 2

    @property
    def start(self) -> int:
        """The row of the mark that begins everything."""
        return self.texts + self.codes + EXTRA

    @property
    def speak(self) -> int:
        """The row of the mark after which speech begins."""
        return self.start + 1


class Network(nn.Module):
    """Rows of the table in, hidden states out; `head` makes scores of the next speech token of them."""

    def __init__(self, config: DecoderConfig, rows: Rows) -> None:
        super().__init__()
        self.rows = rows
        self.embed = nn.Embedding(rows.speak + 1, config.dim)
        self.decoder = Decoder(config)
        self.head = nn.Linear(config.dim, rows.codes + EXTRA)

    @classmethod
    def load(cls, folder: Path, positions: int, at: Placement) -> Network:
        """Read `llm.pt` of a folder, whose shape `CosyVoice-BlankEN/config.json` tells. Raises `WeightsError`."""
        path = folder / "llm.pt"
        config = decoder_config(read_json(folder / "CosyVoice-BlankEN" / "config.json"), positions)
        tensors = read_pickle(path, at.dtype)
        tensors.pop(TEXT_HEAD, None)  # of the language model that training began with; nothing asks it
        try:
            rows = Rows(len(tensors[f"{LLM}embed_tokens.weight"]), len(tensors["speech_embedding.weight"]) - EXTRA)
        except KeyError as missing:
            raise WeightsError(f"{path} is not CosyVoice 2's language model: it lacks {missing}.") from missing
        with torch.device("meta"):
            network = cls(config, rows)
        table = decoder_table(config, "decoder.", LLM)
        table["embed.weight"] = (f"{LLM}embed_tokens.weight", "speech_embedding.weight", "llm_embedding.weight")
        table |= {f"head.{kind}": (f"llm_decoder.{kind}",) for kind in ("weight", "bias")}
        load_module(network, tensors, path, table)
        network.requires_grad_(False).to(at.device)
        pack_all(network, MOST_ROWS)
        return network

    @property
    def dtype(self) -> torch.dtype:
        """Of hidden states. Big weights may be of a smaller one."""
        dtype = self.decoder.norm.weight.dtype
        assert isinstance(dtype, torch.dtype)
        return dtype

    def forward(self, rows: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Rows of the table [n] at `positions` [n] -> hidden states [n, dim]."""
        return self.decoder(self.embed(rows).to(self.dtype), positions, attention)
