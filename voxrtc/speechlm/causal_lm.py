"""A decoder between an embedding and a head, as transformers saves it (`…ForCausalLM` of a kind in `llama.KINDS`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from voxrtc.speechlm.layers.attention import Attention
from voxrtc.speechlm.layers.decoder import Decoder, DecoderConfig
from voxrtc.speechlm.layers.linear import pack_all
from voxrtc.speechlm.llama import decoder_config, decoder_table
from voxrtc.speechlm.weights import load_module, read_folder, read_json

MOST_ROWS = 128  # of a step that is not out of the ordinary


class CausalLM(nn.Module):
    """Token ids in, hidden states out; `head` makes scores of the next token of them."""

    def __init__(self, config: DecoderConfig, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, config.dim)
        self.decoder = Decoder(config)
        self.head = nn.Linear(config.dim, vocabulary, bias=False)

    @classmethod
    def load(cls, folder: Path, positions: int, dtype: torch.dtype = torch.float32) -> Self:
        """Read a folder, for sequences of `positions`. Raises `WeightsError`."""
        config = read_json(folder / "config.json")
        return cls.filled(config, read_folder(folder, dtype), folder, positions)

    @classmethod
    def filled(cls, config: dict[str, Any], tensors: dict[str, Tensor], source: Path, positions: int) -> Self:
        """With these tensors, under transformers' names; `source` is where they are from. Raises `WeightsError`."""
        shape = decoder_config(config, positions)
        with torch.device("meta"):
            network = cls(shape, config["vocab_size"])
        head = "model.embed_tokens.weight" if config.get("tie_word_embeddings") else "lm_head.weight"
        if head != "lm_head.weight":
            tensors.pop("lm_head.weight", None)  # some tools write the tied tensor twice
        table = decoder_table(shape, "decoder.", "model.")
        table |= {"embed.weight": ("model.embed_tokens.weight",), "head.weight": (head,)}
        load_module(network, tensors, source, table)
        return network.requires_grad_(False)

    @property
    def dtype(self) -> torch.dtype:
        """Of hidden states. Big weights may be of a smaller one."""
        dtype = self.decoder.norm.weight.dtype
        assert isinstance(dtype, torch.dtype)
        return dtype

    def pack(self) -> None:
        """Make it fast, on a CPU. After its weights are filled."""
        pack_all(self, MOST_ROWS)

    def forward(self, ids: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Token ids [n] at `positions` [n] -> hidden states [n, dim]."""
        return self.decoder(self.embed(ids).to(self.dtype), positions, attention)
