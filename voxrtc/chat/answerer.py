"""Who answers a conversation: the model itself, where it hears, else a replier, if there is one."""

from __future__ import annotations

from typing import Literal

from voxrtc.chat import events
from voxrtc.chat.answer import Parts, answer
from voxrtc.chat.conversation import Conversation
from voxrtc.chat.ear import Ear
from voxrtc.chat.manner import Manner
from voxrtc.chat.own_answer import own_answer
from voxrtc.chat.reply import Replier
from voxrtc.chat.stages import Marks
from voxrtc.engine.fleet import Fleet


class Answerer:
    """Of one session, whose model may change from answer to answer."""

    def __init__(self, engines: Fleet, ear: Ear, replier: Replier | None) -> None:
        self._engines, self._ear, self._replier = engines, ear, replier

    def who(self, model: str) -> Literal["itself", "replier"] | None:
        """Who does, if this model speaks; None: nobody."""
        return "itself" if self._engines.hears(model) else "replier" if self._replier else None

    def answer(
        self,
        given: list[events.Item] | None,
        conversation: Conversation,
        manner: Manner,
        marks: Marks,
        model: str,
        told: bool,
    ) -> Parts:
        """As `answer.answer` and `own_answer`. `told`: it was said how to speak, for which a model wants all of a text.

        Raises `EventError`.
        """
        if self._engines.hears(model):
            return own_answer(given, conversation, manner, model, lambda id: self._ear.hearing(id, model))
        runs = self._engines.runs(model) and not (told and self._engines.instructed(model))
        return answer(given, conversation, self._replier, manner, marks, runs)
