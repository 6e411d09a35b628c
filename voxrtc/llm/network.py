"""The network of a chat model: the decoder that the speech models share, between an embedding and a head of words."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from voxrtc.speechlm.layers.attention import Attention
from voxrtc.speechlm.layers.decoder import Decoder, DecoderConfig
from voxrtc.speechlm.layers.linear import pack_all
from voxrtc.speechlm.llama import decoder_config, decoder_table
from voxrtc.speechlm.weights import load_module, read_folder, read_json

MOST_ROWS = 128  # of a step that is not out of the ordinary


class Network(nn.Module):
    """Token ids in, scores of the next token out."""

    def __init__(self, config: DecoderConfig, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, config.dim)
        self.decoder = Decoder(config)
        self.head = nn.Linear(config.dim, vocabulary, bias=False)

    @classmethod
    def load(cls, folder: Path, positions: int, dtype: torch.dtype = torch.float32) -> Network:
        """Read a folder that transformers saved, of any kind in `speechlm.llama`. Raises `WeightsError`."""
        config = read_json(folder / "config.json")
        tensors = read_folder(folder, dtype)
        return cls.filled(config, tensors, folder, positions)

    @classmethod
    def filled(cls, config: dict, tensors: dict[str, Tensor], source: Path, positions: int) -> Network:
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
        """Make it fast, on a CPU."""
        pack_all(self, MOST_ROWS)

    def forward(self, ids: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Token ids [n] at `positions` [n] -> hidden states [n, dim]."""
        return self.decoder(self.embed(ids).to(self.dtype), positions, attention)

    def scores(self, hidden: Tensor) -> Tensor:
        """Hidden states [n, dim] -> scores of the next token [n, vocabulary]."""
        return self.head(hidden)
