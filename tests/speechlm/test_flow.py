"""Flows, CosyVoice 2's and Step-Audio 2's: frames are the oracles', whatever the calls; what a stream remembers is bounded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from tests.speechlm.families import quick
from tests.tiny import GOLDEN, noise, write
from voxrtc.speechlm.base import HOST
from voxrtc.speechlm.codecs.dit_files import load_dit_flow
from voxrtc.speechlm.codecs.dit_flow import LONGEST, DiTFlow
from voxrtc.speechlm.codecs.flow import Solver
from voxrtc.speechlm.codecs.flow_files import load_flow
from voxrtc.speechlm.codecs.noise import GivenNoise, SeededNoise
from voxrtc.speechlm.codecs.token_flow import FlowPrompt, FlowState, TokenFlow
from voxrtc.speechlm.weights import WeightsError, read_pickle

ALL = 1 << 20  # blocks to the left
PROMPT, TOKENS = 30, 60  # as in the record


@pytest.fixture(scope="module", params=["flow", "dit"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(request.param, tmp_path_factory.mktemp("of") / request.param)


@pytest.fixture(scope="module")
def flow(folder: Path) -> TokenFlow:
    """With two steps, since more are only slower."""
    return quick(load(folder))


def load(folder: Path, left: int = 2) -> TokenFlow:
    if folder.name == "dit":
        return load_dit_flow(folder, HOST, left)
    return load_flow(read_pickle(folder / "flow.pt"), folder / "flow.pt", HOST, left)


def recorded() -> tuple[FlowPrompt, Tensor, Tensor]:
    """What the oracles were given."""
    tokens, frames = torch.arange(PROMPT + TOKENS) * 1009 % 6561, 2 * (PROMPT + TOKENS)
    table, heard, speaker = noise(frames * 80 + 2 * PROMPT * 80 + 192).split([frames * 80, 2 * PROMPT * 80, 192])
    return FlowPrompt(speaker, tokens[:PROMPT], heard.view(-1, 80)), tokens[PROMPT:], table.view(-1, 80)


def voice(tokens: int, seed: int) -> FlowPrompt:
    drawn = noise(2 * tokens * 80 + 192 + seed)[seed:]
    return FlowPrompt(drawn[:192], speech(tokens, seed), drawn[192:].view(-1, 80))


def speech(tokens: int, seed: int = 0) -> Tensor:
    return torch.randint(6561, (tokens,), generator=torch.Generator().manual_seed(seed))


def streamed(flow: TokenFlow, state: FlowState, tokens: Tensor, chunks: list[int]) -> Tensor:
    parts = tokens.split(chunks)
    return torch.cat([flow([part], [state], [i + 1 == len(parts)])[0] for i, part in enumerate(parts)])


@pytest.mark.parametrize("chunks", [[60], [7] * 8 + [4], [1] * 60])
def test_its_frames_are_the_oracles(folder: Path, chunks: list[int]) -> None:
    """Streaming; blocks see all that was before, as the oracles' do in one call with masks, or with caches that grow."""
    (prompt, tokens, drawn), expected = recorded(), load_file(GOLDEN / folder.name / "golden.safetensors")["mel"]
    if folder.name == "dit":  # what is said begins a block, hence behind a gap
        drawn = torch.cat((drawn[: 2 * PROMPT], torch.zeros(-2 * PROMPT % 50, 80), drawn[2 * PROMPT :]))
    flow = load(folder, left=ALL)
    frames = streamed(flow, flow.begin(prompt, GivenNoise(drawn)), tokens, chunks)
    assert frames.shape == expected.shape and expected.std() > 0.5
    assert (frames - expected).norm() <= 1e-5 * expected.norm(), "1e-3 is promised"


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.lists(st.integers(0, 60), min_size=1, max_size=3)), min_size=2, max_size=4))
def test_streams_do_not_disturb_each_other(flow: TokenFlow, streams: list[tuple[int, list[int]]]) -> None:
    """Of different voices, that bring different numbers of tokens."""
    parts = [speech(sum(chunks), i).split(chunks) for i, (_, chunks) in enumerate(streams)]
    states = [flow.begin(voice(prompt, i), SeededNoise(i, 80)) for i, (prompt, _) in enumerate(streams)]
    made: list[list[Tensor]] = [[] for _ in streams]
    for call in range(3):
        there = [i for i, each in enumerate(parts) if call < len(each)]
        frames = flow([parts[i][call] for i in there], [states[i] for i in there], [call + 1 == len(parts[i]) for i in there])
        for i, new in zip(there, frames, strict=True):
            made[i].append(new)
    for i, (prompt, chunks) in enumerate(streams):
        state = flow.begin(voice(prompt, i), SeededNoise(i, 80))
        alone = flow([speech(sum(chunks), i)], [state], [True])[0]
        whole = torch.cat(made[i])
        assert whole.shape == alone.shape == (2 * sum(chunks), 80)
        torch.testing.assert_close(whole, alone, atol=2e-5, rtol=0)


def test_a_primed_voice_is_shared_and_stays_as_it_is(flow: TokenFlow) -> None:
    prompt, tokens = voice(60, 1), speech(70)
    primed = flow.prime(prompt)
    assert primed.position == (150 if isinstance(flow, DiTFlow) else 100), "the prompt, or its whole blocks"
    first, again = (streamed(flow, primed.copy(), tokens, [30, 40]) for _ in range(2))
    assert torch.equal(first, again)
    expected = flow([tokens], [flow.begin(prompt, SeededNoise(0, 80))], [True])[0]
    assert 0 < (first - expected).norm() <= 1e-3 * expected.norm(), "it is kept in 16 bits"
    whole = flow.begin(prompt, SeededNoise(0, 80))
    flow([tokens[:0]], [whole], [False])
    assert primed.solver.bytes < 0.55 * whole.solver.bytes
    shared = {part.rows.data_ptr() for part in primed.solver.past}
    other = primed.copy()
    flow([tokens], [other], [False])
    assert shared <= {part.rows.data_ptr() for part in other.solver.past}, "the prompt is kept, and not copied"


def test_it_sees_its_prompt_and_two_blocks(flow: TokenFlow) -> None:
    """A token of the first block after the prompt is heard in the next two; a prompt's for ever."""
    prompt, tokens = voice(25, 1), speech(125)

    def made(prompt: FlowPrompt, tokens: Tensor) -> Tensor:
        return flow([tokens], [flow.begin(prompt, SeededNoise(0, 80))], [True])[0].view(5, 50, 80)

    whole, other = made(prompt, tokens), tokens.clone()
    other[0] = (tokens[0] + 1) % 6561
    changed = (made(prompt, other) - whole).abs().amax((1, 2))
    assert (changed[:3] > 1e-4).all()
    said = prompt.tokens.clone()
    said[0] = (said[0] + 1) % 6561
    assert ((made(FlowPrompt(prompt.speaker, said, prompt.mel), tokens) - whole).abs().amax((1, 2)) > 1e-5).all()


def test_a_minute_takes_no_more_memory_than_a_few_seconds(flow: TokenFlow) -> None:
    state, sizes, spread = flow.begin(voice(40, 1), SeededNoise(3, 80)), [], []
    for second in range(60):
        frames = flow([speech(25, second)], [state], [False])[0]
        sizes.append(sum(part.rows.numel() for memory in (state.lower, state.upper, state.solver) for part in memory.past))
        spread.append(float(frames.std()) if len(frames) else None)
    assert len(set(sizes[5:])) == 1
    assert len(state.waiting) < 28
    late, early = torch.tensor(spread[40:]), torch.tensor(spread[5:25])
    assert abs(late.mean() / early.mean() - 1) < 0.1, "it drifts"


def test_a_call_that_fails_moves_no_state(flow: TokenFlow) -> None:
    tokens, states = speech(60), [flow.begin(voice(10, i), SeededNoise(i, 80)) for i in range(2)]
    bad = tokens.clone()
    bad[-1] = 6561
    with pytest.raises(IndexError):
        flow([tokens, bad], states, [True, True])
    begun = flow.begin(voice(10, 0), SeededNoise(0, 80))
    for state in states:
        assert not state.ended and state.position == begun.position and len(state.waiting) == len(begun.waiting)
    expected = flow([tokens], [flow.begin(voice(10, 0), SeededNoise(0, 80))], [True])[0]
    torch.testing.assert_close(flow([tokens], states[:1], [True])[0], expected)


def test_the_solver_asks_once_a_step_for_both_and_guides_away_from_the_free_one() -> None:
    asked = []

    def velocity(x: Tensor, step: int) -> Tensor:
        asked.append((len(x), step))
        return torch.tensor([1.0, 0.5])[:, None]

    made = Solver(steps=4, guidance=0.7)(torch.zeros(1, 1), velocity)
    assert asked == [(2, step) for step in range(4)]
    assert float(made) == pytest.approx(1.7 * 1 - 0.7 * 0.5)
    assert (Solver().times.diff().diff() > 0).all(), "steps grow"


def test_noise_hangs_on_seed_and_row_alone() -> None:
    table = SeededNoise(5, 80)
    rows = table.rows(0, 1000)
    assert abs(float(rows.mean())) < 0.02 and abs(float(rows.std()) - 1) < 0.02
    assert torch.equal(table.rows(333, 351), rows[333:351]) and table.rows(7, 7).shape == (0, 80)
    assert not torch.equal(SeededNoise(6, 80).rows(0, 10), rows[:10])
    assert not torch.equal(SeededNoise(5, 80, kind=1).rows(0, 10), rows[:10])
    assert SeededNoise(-1, 80).rows(0, 1).isfinite().all()


def test_what_a_file_lacks_is_told_by_name(folder: Path, tmp_path: Path) -> None:
    tensors, copy = read_pickle(folder / "flow.pt"), shutil.copytree(folder, tmp_path / folder.name)

    def refused(tensors: dict[str, Tensor], match: str) -> None:
        torch.save(tensors, copy / "flow.pt")
        with pytest.raises(WeightsError, match=match):
            load(copy)

    last = "decoder.estimator." + ("final_layer.linear.bias" if folder.name == "dit" else "final_proj.bias")
    refused({name: tensor for name, tensor in tensors.items() if name != last}, f"missing {last}")
    refused({name: tensor for name, tensor in tensors.items() if name != "encoder_proj.bias"}, "(lacks|missing).*encoder_proj")
    refused(tensors | {"more": torch.zeros(1)}, "surplus more")
    refused(tensors | {last: torch.zeros(3)}, rf"{last} is \[3\], wanted \[80\]")


def test_a_description_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = write("dit", tmp_path / "dit")
    whole = (folder / "flow.yaml").read_text()
    for text, match in (
        (whole.replace("depth: 2", ""), "not the flow of Step-Audio 2.*depth"),
        (whole.replace("depth: 2", "depth: two"), "not the flow of Step-Audio 2"),
        (whole.replace("up_stride: 2", "up_stride: 4"), "4 frames of a token"),
        (whole.replace("hidden_size: 32", "hidden_size: 48"), "flow.pt does not fit"),
        ("flow: [", "cannot be read"),
        ("just words", "not the flow of Step-Audio 2"),
    ):
        (folder / "flow.yaml").write_text(text)
        with pytest.raises(WeightsError, match=match):
            load(folder)
    (folder / "flow.yaml").unlink()
    with pytest.raises(WeightsError, match=r"flow\.yaml is missing"):
        load(folder)


def test_of_a_long_prompt_the_end_is_heard(tmp_path: Path) -> None:
    flow = quick(load(write("dit", tmp_path / "dit")))
    long = voice(LONGEST + 40, 1)
    state, expected = flow.prime(long), flow.prime(long.last(LONGEST))
    assert state.position == 2 * LONGEST
    tokens = speech(30)
    assert torch.equal(streamed(flow, state, tokens, [30]), streamed(flow, expected, tokens, [30]))
