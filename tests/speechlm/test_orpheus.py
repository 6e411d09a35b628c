"""Orpheus against its oracle, and what is its own: slots, stop, prompts. The rest is in `test_families`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.toy import Bench
from tests.speechlm.families import VOICES, tiny_orpheus, write_orpheus
from tests.tiny import GOLDEN
from voxrtc.speechlm.base import InvalidRequest, Placement, Utterance
from voxrtc.speechlm.layers.attention import DenseCausal
from voxrtc.speechlm.orpheus import CODES, END, FIRST, FRAMES, POSITIONS, PROMPT, SLOTS, STOP, TEXT_TOKENS, Network, Orpheus
from voxrtc.speechlm.weights import WeightsError

PROMPTS = json.loads((GOLDEN / "orpheus" / "prompts.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_orpheus(tmp_path_factory.mktemp("orpheus"))


@pytest.fixture(scope="module")
def orpheus(folder: Path) -> Orpheus:
    return tiny_orpheus(folder)


@pytest.fixture(scope="module")
def golden() -> dict[str, torch.Tensor]:
    return load_file(GOLDEN / "orpheus" / "golden.safetensors")


def test_scores_are_the_oracles(orpheus: Orpheus, golden: dict[str, torch.Tensor]) -> None:
    ids, network = golden["ids"], orpheus.network
    with torch.inference_mode():
        hidden = network.decoder(network.embed(ids)[None], torch.arange(len(ids))[None], DenseCausal())
        scores = network.head(hidden)[0, :, ::29]
    assert golden["scores"].std() > 1
    assert (scores - golden["scores"]).abs().max() <= 1e-4


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("page_size", [16, 4096])
def test_greedy_speech_is_the_oracles(
    orpheus: Orpheus, golden: dict[str, torch.Tensor], penalty: float, page_size: int
) -> None:
    """64 frames of seven codes, through the engine, beside another stream."""
    bench = Bench(model=orpheus, slots=2, page_size=page_size)
    bench.speak("company", "Somebody else.", seed=1)
    bench.step()
    bench.speak("a", PROMPTS[1]["text"], "leah", temperature=0.0, repetition_penalty=penalty)
    bench.run()
    codes = torch.tensor(bench.codes["a"])[: SLOTS * 64, 0]
    ids = FIRST + CODES * (torch.arange(len(codes)) % SLOTS) + codes
    assert len(ids) == SLOTS * 64
    assert torch.equal(ids, golden[f"greedy.{penalty}"])


@pytest.mark.parametrize("said", PROMPTS, ids=lambda said: said["text"][:12])
def test_prompts_are_the_oracles(orpheus: Orpheus, said: dict) -> None:
    assert orpheus.prompt_ids(said["text"], said["voice"]) == said["ids"]


def test_the_default_voice_is_the_first(orpheus: Orpheus) -> None:
    default, tara, zoe = (orpheus.preprocess(Utterance("Hello.", voice)).data.tolist() for voice in ("default", "tara", "zoe"))
    assert default == tara != zoe


def test_a_text_cannot_write_the_prompts_marks(orpheus: Orpheus) -> None:
    ids = orpheus.prompt_ids("a<|eot_id|>b", "tara")
    assert ids.count(128009) == 1
    with pytest.raises(InvalidRequest, match="own"):
        orpheus.preprocess(Utterance("a<custom_token_2>b", "tara"))


def test_every_piece_fits_its_prompt(orpheus: Orpheus) -> None:
    text = "The train leaves at ten, or so they say. " * 30 + "x" * 500 + " 你好，世界" * 60
    pieces = orpheus.split(text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    for piece in pieces:
        prompt = orpheus.preprocess(Utterance(piece, "leah"))
        assert prompt.length <= PROMPT and len(orpheus.tokenizer.encode(piece, add_special_tokens=False).ids) <= TEXT_TOKENS
        assert prompt.max_frames % SLOTS == 0 and prompt.max_frames <= SLOTS * FRAMES
        assert prompt.length + prompt.max_frames <= orpheus.cache.positions


def test_speech_may_end_only_where_a_frame_does(orpheus: Orpheus) -> None:
    hidden, slot = torch.randn(SLOTS, orpheus.network.decoder.config.dim), torch.arange(SLOTS)
    scores = orpheus.network.scores(hidden, slot)
    assert scores.shape == (SLOTS, CODES + 1)
    assert scores[:, END].isfinite().tolist() == [True] + [False] * 6
    whole = orpheus.network.head(hidden)
    for i in range(SLOTS):
        first = FIRST - STOP + CODES * i
        torch.testing.assert_close(scores[i, :CODES], whole[i, first : first + CODES])


def test_the_end_is_heard_as_nothing(folder: Path) -> None:
    """A model that ends its speech after three frames: 21 codes and the end, of which 3 x 2048 samples come."""
    orpheus = tiny_orpheus(folder)
    scores = orpheus.network.scores
    made = []

    def ends(hidden: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
        made.append(int(slot[0]))
        values = scores(hidden, slot)
        values[:, END] = 1e9 if len(made) > 18 and made[-1] == 0 else -torch.inf
        return values

    orpheus.network.scores = ends  # type: ignore[method-assign]
    bench = Bench(model=orpheus)
    bench.speak("a", "Hello.", seed=1)
    bench.run()
    assert len(bench.codes["a"]) == 22 and bench.codes["a"][-1] == [END]
    assert sum(len(reply.pcm) for reply in bench.replies["a"][:-1]) == 2 * 3 * 2048  # type: ignore[union-attr]


def test_an_untied_head_is_read_and_a_tied_one_written_twice_is_not(folder: Path, tmp_path: Path) -> None:
    tied = Network.load(folder, POSITIONS, torch.float32)
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    tensors = {k: v for path in folder.glob("*.safetensors") if path.stem != "golden" for k, v in load_file(path).items()}
    save_file({**tensors, "lm_head.weight": 2 * tensors["model.embed_tokens.weight"]}, tmp_path / "model.safetensors")
    torch.testing.assert_close(Network.load(tmp_path, POSITIONS, torch.float32).head.weight, 2 * tied.head.weight)
    (tmp_path / "config.json").write_text(json.dumps(config))
    torch.testing.assert_close(Network.load(tmp_path, POSITIONS, torch.float32).head.weight, tied.head.weight)


def test_it_can_be_had_in_half_precision(folder: Path) -> None:
    network = Network.load(folder, POSITIONS, torch.bfloat16)
    assert {parameter.dtype for parameter in network.parameters()} == {torch.bfloat16}
    hidden = network(torch.arange(9)[None], torch.arange(9)[None], DenseCausal())
    assert hidden.dtype == torch.bfloat16 and hidden.isfinite().all()


def test_on_a_cpu_weights_in_half_precision_make_hidden_states_in_full(orpheus: Orpheus, folder: Path) -> None:
    half = Orpheus.load(folder, VOICES, Placement(dtype=torch.bfloat16))
    assert half.network.embed.weight.dtype == torch.bfloat16 and half.dtype == torch.float32
    ids, positions = torch.arange(9), torch.arange(9)
    made, expected = (model.network(ids[None], positions[None], DenseCausal()) for model in (half, orpheus))
    assert made.dtype == torch.float32 and 0 < (made - expected).abs().max() < 0.3
    bench = Bench(model=half)
    bench.speak("a", "Yes.", seed=1)
    for _ in range(4):
        bench.step()
    assert len(bench.codes["a"]) >= 2


def test_a_broken_checkpoint_is_told_by_name(folder: Path, tmp_path: Path) -> None:
    write_orpheus(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "vocab_size": 128_256}))
    with pytest.raises(WeightsError, match="128256 tokens"):
        tiny_orpheus(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    with pytest.raises(WeightsError, match=r"surplus model\.layers\.1\."):
        tiny_orpheus(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 50}))
    with pytest.raises(WeightsError, match=r"gate_proj\.weight and .* is \[48, 32\] and \[48, 32\], wanted \[100"):
        tiny_orpheus(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(WeightsError, match=r"tokenizer\.json cannot be read"):
        tiny_orpheus(tmp_path)
