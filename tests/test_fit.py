"""Whether models fit machines, and what is said of it: the cards' figures against what was measured."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.cards import Needs, read_card
from voxrtc.fit import expected_speed, figure, fit, gigabytes, learned_speed, least_memory, whole_cache
from voxrtc.machine import Machine, Speed
from voxrtc.messages.engine import CostStats
from voxrtc.settings import ROOT

# The two cores of an x86 server (AVX-512) that the README's figures are from, by `python -m voxrtc.machine`
SERVER = Machine(memory=24.0, free=20.0, cores=2, speed=Speed(reads=31.0, computes=125.0))
SMALL = Needs(memory=0.5, stream=0.04, compute=9, reads=4.3)
amounts = st.floats(0.001, 1e4)


@pytest.mark.parametrize(
    ("model", "numbers", "measured"), [("pocket", 4, 4.6), ("csm", 4, 0.15), ("csm", 2, 0.25), ("orpheus", 2, 0.07)]
)
def test_estimates_are_right_to_a_factor_of_two(model: str, numbers: int, measured: float) -> None:
    """Against `python -m voxrtc.bench models`, one stream."""
    card = read_card(ROOT / "models", model)
    machine = msgspec.structs.replace(SERVER, numbers=numbers)
    speed = expected_speed(card.needs, card.info.frame_rate, machine)
    assert speed and measured / 2 < speed < measured * 2


def test_the_words_say_whether_a_figure_is_an_estimate() -> None:
    assert fit(SMALL, 12.5, SERVER, 20).words.startswith("fits: about ")
    seen = fit(SMALL, 12.5, SERVER, 20, learned=4.61)
    assert (seen.words, seen.verdict, seen.learned) == ("fits: 4.6x real time", "fits", True)
    slow = fit(SMALL, 12.5, SERVER, 20, learned=0.42)
    assert (slow.words, slow.verdict) == ("slow here: 0.4x real time", "slow")
    unmeasured = msgspec.structs.replace(SERVER, speed=None)
    assert fit(SMALL, 12.5, unmeasured, 20).words == "fits"


def test_what_is_too_big_says_by_how_much() -> None:
    big = Needs(memory=13.7, stream=0.6, compute=550, reads=1124)
    told = fit(big, 82, SERVER, 3.2)
    assert told.verdict == "too big" and told.lacks == pytest.approx(least_memory(big, SERVER) - 3.2)
    assert told.words.startswith("needs 12 GB more, and would be slow here: about 0.0")
    assert fit(SMALL, 12.5, SERVER, 1.3).words == "needs 0.1 GB more"


def test_a_gpu_takes_half_the_memory_and_its_speed_is_unknown_until_it_was_tried() -> None:
    gpu = Machine(memory=80, free=78, cores=16, gpu="H100", numbers=2, speed=SERVER.speed)
    big = Needs(memory=13.7, stream=0.6, compute=550, reads=1124)
    assert least_memory(big, gpu) < least_memory(big, SERVER)
    assert fit(big, 82, gpu, 70).words == "fits"
    assert fit(big, 82, gpu, 70, learned=2.0).words == "fits: 2.0x real time"
    assert whole_cache(big, gpu, 64) == pytest.approx(19.2)
    assert whole_cache(big, SERVER, 64) == pytest.approx(19.2)
    assert whole_cache(big, SERVER, 1) == pytest.approx(0.6), "one stream has all it may need"


def costs(step: float, stream: float, codec: float, frame: float, observed: int = 9) -> dict[str, CostStats]:
    """Milliseconds."""
    return {
        "step": CostStats(call_ms=step, each_ms={"stream": stream, "prompt token": 1.0}, observed=observed),
        "depth": CostStats(call_ms=0.0, each_ms={"stream": 0.0}, observed=observed),
        "codec": CostStats(call_ms=codec, each_ms={"stream": 0.0, "frame": frame}, observed=observed),
    }


def test_a_learned_speed_is_what_a_second_of_sound_costs_alone() -> None:
    # 10 frames of 9 + 1 ms, and 5 calls for 2 frames each of 4 + 2 x 3 ms: 150 ms
    assert learned_speed(costs(9, 1, 4, 3), frame_rate=10) == pytest.approx(1 / 0.15)
    assert learned_speed(costs(9, 1, 4, 3, observed=0), frame_rate=10) is None, "guesses are no experience"


@given(amounts, amounts, amounts, amounts, st.floats(0, 100), st.sampled_from([2, 4]))
def test_more_room_is_never_worse_and_what_lacks_would_be_enough(
    memory: float, compute: float, reads: float, rate: float, room: float, numbers: int
) -> None:
    needs = Needs(memory=memory, stream=memory / 10, compute=compute, reads=reads)
    machine = msgspec.structs.replace(SERVER, numbers=numbers)
    told = fit(needs, rate, machine, room)
    assert told.speed and told.speed > 0
    assert (told.verdict == "too big") == (told.lacks > 0) == told.words.startswith("needs")
    enough = fit(needs, rate, machine, room + told.lacks + 1e-6)
    assert enough.verdict == ("slow" if told.speed < 1 else "fits") and enough.speed == told.speed


@given(st.floats(0.001, 200))
def test_figures_for_people_keep_their_side_of_one(speed: float) -> None:
    assert (float(figure(speed)) < 1) == (speed < 1)


@given(st.floats(0.001, 500))
def test_memory_for_people_is_rounded_up(amount: float) -> None:
    told = float(gigabytes(amount).split()[0])
    assert amount - 1e-6 <= told <= amount + 1
