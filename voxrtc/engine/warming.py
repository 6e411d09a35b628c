"""A few sentences said to nobody, before anybody is let in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from voxrtc.engine.attention import sizes
from voxrtc.engine.caution import Caution
from voxrtc.engine.costs import Costs
from voxrtc.engine.door import Stays
from voxrtc.engine.snapshot import Counters
from voxrtc.messages.conversation import ConversationTurn, Forget, Hear, Heard
from voxrtc.messages.engine import Cancel, EngineReply, Generate

if TYPE_CHECKING:
    from voxrtc.engine.loop import Engine

WARM_UP = (1, 4, 16, 64)  # streams at a time; the most also has working memory reach about its final size
WARM_UP_WITHIN = 1.5  # seconds for so many; what is not said by then, on a slow machine, need not be
EAR = "warm-up"


def warm_up(engine: Engine) -> None:
    """The first sentence is slow, and the policy needs an idea of what steps of different sizes cost."""
    heard = _hear_silence(engine) if engine.worker.model.hears else ()
    # Where steps are recorded, all widths are, for short texts in the model's own manner. Longer ones, where pages are filled
    # up, and other manners are recorded when they come, once each: all of those would take loading many times as long.
    for streams in (1, *(sizes(engine.worker.slots) if engine.worker.graphs else WARM_UP)):
        names, began = [f"warm-up {i}" for i in range(min(streams, engine.worker.slots))], engine.clock()
        for name in names:
            engine.submit(Generate(stream=name, text="Yes.", accepted=began, conversation=heard), _nobody)
        while (ran := engine.run_once()) or engine.streams:
            if not ran:
                engine.wait()
            if engine.clock() - began > WARM_UP_WITHIN:
                while names:
                    engine.submit(Cancel(stream=names.pop()), _nobody)
        if streams == 1:
            engine.costs = Costs()  # the slow one is no example
    if heard:
        engine.submit(Forget(hearing=EAR), _nobody)
    engine.counters = Counters(born=engine.clock())
    if graphs := engine.worker.sound.graphs:
        graphs.recount()
    engine.door.stays = Stays()  # people have more said than that
    engine.caution = Caution()  # nor do they come 64 at a time


def _hear_silence(engine: Engine) -> tuple[ConversationTurn, ...]:
    """A second of it, to be answered."""
    rate = engine.worker.model.hearing_rate
    engine.submit(Hear(hearing=EAR, pcm=bytes(2 * rate), sample_rate=rate, first=True, final=True), _nobody)
    return (Heard(hearing=EAR),)


def _nobody(reply: EngineReply) -> None:
    """Takes what they would be told."""
