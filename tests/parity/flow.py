"""Oracles of `codecs.token_flow` and `codecs.hift_stream`: CosyVoice 2's flow and HiFT, tiny, in token2wav-cosyvoice's copy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
from safetensors.torch import save_file

from tests.parity import stubs  # noqa: F401  before what it stands in for
from tests.parity.saving import write_json
from tests.tiny import fill, manifest, noise

from cosyvoice.flow.decoder import CausalConditionalDecoder  # isort: skip
from cosyvoice.flow.flow import CausalMaskedDiffWithXvec  # isort: skip
from cosyvoice.flow.flow_matching import CausalConditionalCFM  # isort: skip
from cosyvoice.hifigan.f0_predictor import ConvRNNF0Predictor  # isort: skip
from cosyvoice.hifigan.generator import HiFTGenerator  # isort: skip
from cosyvoice.transformer.upsample_encoder import PreLookaheadLayer, Upsample1D, UpsampleConformerEncoder  # isort: skip

DIM, WIDTH = 64, 32  # of the encoder and of the estimator
PROMPT, TOKENS, FRAMES = 30, 60, 30
SOLVER = dict(sigma_min=1e-6, solver="euler", t_scheduler="cosine", training_cfg_rate=0.2, inference_cfg_rate=0.7)


def flow() -> torch.nn.Module:
    """Two blocks below and, as its code has it, four above; three stages. Its widths are hard-coded in two places."""
    encoder = UpsampleConformerEncoder(
        input_size=DIM, output_size=DIM, attention_heads=2, linear_units=96, num_blocks=2, input_layer="linear",
        pos_enc_layer_type="rel_pos_espnet", use_cnn_module=False, macaron_style=False, static_chunk_size=25,
    )  # fmt: skip
    encoder.pre_lookahead_layer, encoder.up_layer = PreLookaheadLayer(DIM, 3), Upsample1D(DIM, DIM, 2)
    estimator = CausalConditionalDecoder(
        320, 80, [WIDTH], 0.0, attention_head_dim=64, n_blocks=2, num_mid_blocks=1, num_heads=2, act_fn="gelu",
        static_chunk_size=50,
    )  # fmt: skip
    solver = CausalConditionalCFM(240, SimpleNamespace(**SOLVER), n_spks=1, spk_emb_dim=80, estimator=estimator)
    return CausalMaskedDiffWithXvec(DIM, encoder=encoder, decoder=solver, vocab_size=6561, input_frame_rate=25)


def hift() -> torch.nn.Module:
    """As CosyVoice 2 configures it, but narrow."""
    return HiFTGenerator(
        base_channels=32, sampling_rate=24_000, upsample_rates=[8, 5, 3], upsample_kernel_sizes=[16, 11, 7],
        source_resblock_kernel_sizes=[7, 7, 11], source_resblock_dilation_sizes=[[1, 3, 5]] * 3,
        f0_predictor=ConvRNNF0Predictor(cond_channels=24),
    )  # fmt: skip


@torch.inference_mode()
def record(golden: Path) -> None:
    """The mel frames of TOKENS tokens behind a prompt [2 * TOKENS, 80], and samples of FRAMES frames; noise is `tiny.noise`."""
    keep = golden / "flow"
    keep.mkdir(parents=True, exist_ok=True)
    models = {"flow.pt": filled(flow()), "hift.pt": filled(hift())}
    write_json(keep / "manifest.json", {name: manifest(model.state_dict()) for name, model in models.items()})
    save_file({"mel": mel(models["flow.pt"]), "samples": samples(models["hift.pt"])}, keep / "golden.safetensors")


def filled(model: torch.nn.Module) -> torch.nn.Module:
    """With the weights that `tiny.write` writes."""
    model.load_state_dict({name: fill(name, tensor.shape) for name, tensor in model.state_dict().items()})
    return model.eval()


def mel(model: torch.nn.Module) -> torch.Tensor:
    """With the masks of streaming, in one call."""
    tokens = torch.arange(PROMPT + TOKENS)[None] * 1009 % 6561
    drawn = noise(2 * (PROMPT + TOKENS) * 80 + 2 * PROMPT * 80 + 192)
    table, heard, speaker = drawn.split([2 * (PROMPT + TOKENS) * 80, 2 * PROMPT * 80, 192])
    model.decoder.rand_noise = table.view(1, -1, 80).transpose(1, 2)
    counts = [torch.tensor([n], dtype=torch.int32) for n in (TOKENS, PROMPT, 2 * PROMPT)]
    made, _ = model.inference(
        tokens[:, PROMPT:], counts[0], tokens[:, :PROMPT], counts[1], heard.view(1, -1, 80), counts[2], speaker[None],
        streaming=True, finalize=True,
    )  # fmt: skip
    return made[0].T.contiguous()


def samples(model: torch.nn.Module) -> torch.Tensor:
    """Of random frames."""
    spectrogram, drawn = noise(FRAMES * 80).view(1, FRAMES, 80), noise(FRAMES * 480 * 9).view(1, -1, 9)
    given = iter((drawn, torch.zeros(1, FRAMES * 480, 1)))
    with mock.patch("torch.randn_like", side_effect=given):
        made, _ = model.inference(spectrogram.transpose(1, 2))
    assert (model.f0_predictor(spectrogram.transpose(1, 2)) > 10).float().mean().sub(0.5).abs() < 0.4, "voiced and not"
    return made[0].contiguous()
