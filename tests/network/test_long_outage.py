"""Half a minute without a network: what the person sees meanwhile, and how they go on."""

from __future__ import annotations

from tests.e2e import ear
from tests.e2e.desk import Desk
from tests.e2e.test_calls import LONG
from tests.e2e.test_speech import SENTENCES
from tests.network.conditions import Conditions
from tests.network.machines import Machines

LOOKS = (3, 5, 10, 20, 30)  # seconds
TOLD_WITHIN = 10  # seconds


def test_half_a_minute_without_a_network(desk: Desk, wire: Machines) -> None:
    """They are told, and afterwards one press is enough, if any."""
    desk.speak(LONG)
    desk.await_sound()
    wire.set(Conditions(cut=True))
    seen, before = {}, 0
    for seconds in LOOKS:
        desk.page.wait_for_timeout(1000 * (seconds - before))
        before, seen[seconds] = seconds, f"{desk.state}: {desk.trouble or '-'}"
    wire.set(Conditions())
    for seconds, words in seen.items():
        print(f"after {seconds} s: {words}")
    desk.page.wait_for_function("!['connecting'].includes(voxrtc.state)")
    print(f"and when it is back: {desk.state}: {desk.trouble or '-'}")
    heard = ear.transcribe(ear.prepare(*desk.hear(SENTENCES[0])))
    assert ear.wer([SENTENCES[0]], [heard]) <= 0.1, heard
    assert any(not words.endswith("-") for seconds, words in seen.items() if seconds <= TOLD_WITHIN), seen
