"""The flow: its frames are the oracle's, whatever the calls; and what a stream remembers is bounded."""

from __future__ import annotations

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
from voxrtc.speechlm.codecs.flow import Solver
from voxrtc.speechlm.codecs.flow_files import load_flow
from voxrtc.speechlm.codecs.noise import GivenNoise, SeededNoise
from voxrtc.speechlm.codecs.token_flow import FlowPrompt, FlowState, TokenFlow
from voxrtc.speechlm.weights import WeightsError, read_pickle

ALL = 1 << 20  # blocks to the left
PROMPT, TOKENS = 30, 60  # as in the record


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write("flow", tmp_path_factory.mktemp("flow"))


@pytest.fixture(scope="module")
def flow(folder: Path) -> TokenFlow:
    """With two steps, since more are only slower."""
    return quick(load_flow(read_pickle(folder / "flow.pt"), folder / "flow.pt", HOST))


def recorded() -> tuple[FlowPrompt, Tensor, GivenNoise]:
    """What the oracle was given."""
    tokens, frames = torch.arange(PROMPT + TOKENS) * 1009 % 6561, 2 * (PROMPT + TOKENS)
    table, heard, speaker = noise(frames * 80 + 2 * PROMPT * 80 + 192).split([frames * 80, 2 * PROMPT * 80, 192])
    return FlowPrompt(speaker, tokens[:PROMPT], heard.view(-1, 80)), tokens[PROMPT:], GivenNoise(table.view(-1, 80))


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
    """Streaming, with the masks that the oracle has in one call, whose blocks see all that was before."""
    flow = load_flow(read_pickle(folder / "flow.pt"), folder / "flow.pt", HOST, left=ALL)
    (prompt, tokens, drawn), expected = recorded(), load_file(GOLDEN / "flow" / "golden.safetensors")["mel"]
    frames = streamed(flow, flow.begin(prompt, drawn), tokens, chunks)
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
    assert primed.position == 100, "the prompt's whole blocks"
    first, again = (streamed(flow, primed.copy(), tokens, [30, 40]) for _ in range(2))
    assert torch.equal(first, again)
    expected = flow([tokens], [flow.begin(prompt, SeededNoise(0, 80))], [True])[0]
    torch.testing.assert_close(first, expected, atol=2e-5, rtol=0)
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
    assert not any(state.ended or state.position or len(state.waiting) != 10 for state in states)
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


def test_what_a_file_lacks_is_told_by_name(folder: Path) -> None:
    for name, match in (("encoder_proj.bias", "lacks"), ("decoder.estimator.final_proj.bias", "missing decoder.estimator")):
        tensors = read_pickle(folder / "flow.pt")
        del tensors[name]
        with pytest.raises(WeightsError, match=match):
            load_flow(tensors, folder / "flow.pt", HOST)
    with pytest.raises(WeightsError, match="surplus more"):
        load_flow(read_pickle(folder / "flow.pt") | {"more": torch.zeros(1)}, folder / "flow.pt", HOST)
