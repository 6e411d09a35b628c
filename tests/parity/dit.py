"""Oracle of `codecs.dit_flow`: the flow of Step-Audio 2's token2wav, tiny, in stepaudio2-minicpmo's copy; and its HiFT."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import torch
from safetensors.torch import save_file

from tests.parity import stubs  # noqa: F401  before what it stands in for
from tests.parity.flow import filled
from tests.parity.saving import write_json
from tests.tiny import manifest, noise

from stepaudio2.cosyvoice2.flow.decoder_dit import DiT  # isort: skip
from stepaudio2.cosyvoice2.flow.flow import CausalMaskedDiffWithXvec  # isort: skip
from stepaudio2.cosyvoice2.flow.flow_matching import CausalConditionalCFM  # isort: skip
from stepaudio2.cosyvoice2.transformer.upsample_encoder_v2 import UpsampleConformerEncoderV2  # isort: skip
from stepaudio2.flashcosyvoice.modules.hifigan import ConvRNNF0Predictor, HiFTGenerator  # isort: skip

PROMPT, TOKENS, BLOCK, AHEAD = 30, 60, 25, 3
FRAMES, PAUSE = 30, 4218
ENCODER = dict(
    input_size=64, output_size=64, input_layer="linear", pre_lookahead_len=AHEAD, num_blocks=2, num_up_blocks=2, up_stride=2,
    up_scale_factor=2, attention_heads=2, pos_enc_layer_type="rel_pos_espnet", selfattention_layer_type="rel_selfattn",
    key_bias=True, linear_units=96, dropout_rate=0.1, positional_dropout_rate=0.1, attention_dropout_rate=0.1,
    normalize_before=True,
)  # fmt: skip
DIT = dict(in_channels=320, out_channels=80, mlp_ratio=3.0, depth=2, num_heads=2, head_dim=24, hidden_size=32)
FLOW = dict(input_size=64, output_size=80, spk_embed_dim=192, output_type="mel", vocab_size=6561)
NAMES = {
    "flow": "flow.flow.CausalMaskedDiffWithXvec",
    "encoder": "transformer.upsample_encoder_v2.UpsampleConformerEncoderV2",
    "decoder": "flow.flow_matching.CausalConditionalCFM",
    "estimator": "flow.decoder_dit.DiT",
}


def flow() -> torch.nn.Module:
    """Of the widths above. Those of its caches are hard-coded, so these are made anew."""
    estimator = DiT(**DIT)
    solver = CausalConditionalCFM(estimator, inference_cfg_rate=0.7)
    depth, heads, width = DIT["depth"], DIT["num_heads"], 2 * DIT["head_dim"]
    estimator.att_cache_buffer = torch.zeros(depth, 2, heads, 1000, width)
    estimator.cnn_cache_buffer = torch.zeros(depth, 2, 2 * DIT["hidden_size"], 2)
    solver.att_cache_buffer = torch.zeros(10, depth, 2, heads, 1000, width)
    solver.cnn_cache_buffer = torch.zeros(10, depth, 2, 2 * DIT["hidden_size"], 2)
    return CausalMaskedDiffWithXvec(**FLOW, encoder=UpsampleConformerEncoderV2(**ENCODER), decoder=solver)


def hift() -> torch.nn.Module:
    """As it is configured where nothing is said, but narrow."""
    return HiFTGenerator(base_channels=32, f0_predictor=ConvRNNF0Predictor(cond_channels=24))


@torch.inference_mode()
def record(golden: Path) -> None:
    """The mel frames of TOKENS tokens behind a prompt [2 * TOKENS, 80], and samples of FRAMES frames; noise is `tiny.noise`."""
    keep = golden / "dit"
    keep.mkdir(parents=True, exist_ok=True)
    models = {"flow.pt": filled(flow()), "hift.pt": filled(hift())}
    write_json(keep / "manifest.json", {name: manifest(model.state_dict()) for name, model in models.items()})
    (keep / "flow.yaml").write_text(described())
    save_file({"mel": mel(models["flow.pt"]), "samples": samples(models["hift.pt"])}, keep / "golden.safetensors")


def described() -> str:
    """As the repository describes the real one."""
    rows = [tag("flow", 0), *settings(FLOW, 1), tag("encoder", 1), *settings(ENCODER, 2), tag("decoder", 1)]
    rows += [*settings({"inference_cfg_rate": 0.7}, 2), tag("estimator", 2), *settings(DIT, 3)]
    return "\n".join(rows) + "\n"


def tag(name: str, depth: int) -> str:
    return f"{'  ' * depth}{name}: !new:cosyvoice2.{NAMES[name]}"


def settings(values: dict, depth: int) -> list[str]:
    return [f"{'  ' * depth}{name}: {value}" for name, value in values.items()]


def mel(model: torch.nn.Module) -> torch.Tensor:
    """Streamed as `token2wav.py` does, but with nothing dropped from the caches."""
    tokens, frames = torch.arange(PROMPT + TOKENS)[None] * 1009 % 6561, 2 * (PROMPT + TOKENS)
    table, heard, speaker = noise(frames * 80 + 2 * PROMPT * 80 + 192).split([frames * 80, 2 * PROMPT * 80, 192])
    model.decoder.rand_noise = table.view(1, -1, 80).transpose(1, 2)
    prompt, spoken = tokens[:, :PROMPT], tokens[:, PROMPT:]
    cache = model.setup_cache(
        torch.cat((prompt, torch.full((1, AHEAD), PAUSE)), 1), heard.view(1, -1, 80), speaker[None], n_timesteps=10
    )
    made = []
    for begin in range(0, TOKENS, BLOCK):
        last = begin + BLOCK >= TOKENS
        part = spoken[:, begin : TOKENS if last else begin + BLOCK + AHEAD]
        frames, cache = model.inference_chunk(part, speaker[None], cache, last_chunk=last, n_timesteps=10)
        made.append(frames)
    return torch.cat(made, 2)[0].T.contiguous()


def samples(model: torch.nn.Module) -> torch.Tensor:
    """Of random frames."""
    spectrogram, drawn = noise(FRAMES * 80).view(1, FRAMES, 80), noise(FRAMES * 480 * 9).view(1, -1, 9)
    with mock.patch("torch.randn_like", side_effect=iter((drawn, torch.zeros(1, FRAMES * 480, 1)))):
        made, _ = model(spectrogram.transpose(1, 2))
    return made[0].contiguous()
