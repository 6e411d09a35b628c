"""A bad network that still is one: 2% loss, 30 ms jitter, 100 ms round trip."""

from __future__ import annotations

import numpy as np

from tests.e2e import ear
from tests.e2e.desk import Desk
from tests.e2e.test_speech import SENTENCES, concealed
from tests.network.conditions import Conditions
from tests.network.machines import Machines

BAD = Conditions(loss=0.02, delay=0.05, jitter=0.03)
ROUNDS = 1


def heard(desk: Desk) -> tuple[list[str], float]:
    """What the sentences were understood as, and PLCMOS."""
    sounds = [ear.prepare(*desk.hear(text)) for text in SENTENCES]
    return [ear.transcribe(sound) for sound in sounds], float(np.mean([ear.plcmos(sound) for sound in sounds]))


def test_speech_over_a_bad_network_is_understood(desk: Desk, wire: Machines) -> None:
    """Nearly every word, and without much damage."""
    clean, best = heard(desk)
    wire.set(BAD)
    words, quality = heard(desk)
    counts = wire.set(BAD)
    figures = f"WER {ear.wer(SENTENCES, words):.1%} ({ear.wer(SENTENCES, clean):.1%} on a good one), "
    figures += f"PLCMOS {quality:.2f} ({best:.2f}), {concealed(desk):.2%} of the call concealed, {counts['down']}"
    print(figures, *words, desk.stats(), sep="\n")
    assert ear.wer(SENTENCES, words) <= 0.05, words
    assert best - quality <= 0.4, figures
