"""Places for calls in a media process. Those that nobody listens to take none from people, and are few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from voxrtc.chat.socket import Socket
from voxrtc.chat.talk import Talk

BACKGROUND = 0.25  # of all places, those for calls that nobody listens to


def make_room(talks: Callable[[], Sequence[Talk | Socket]], places: int, background: bool) -> bool:
    """Whether there is one for somebody new; who may come back has to make room. `talks` are those that are not over."""
    while _full(talks(), places, background):
        kept = next((talk for talk in talks() if isinstance(talk, Talk) and talk.kept), None)
        if kept is None:
            return False
        kept.end()
    return True


def _full(talks: Sequence[Talk | Socket], places: int, background: bool) -> bool:
    idle = sum(talk.session.background for talk in talks)
    if background:
        return len(talks) >= places or idle >= BACKGROUND * places
    return len(talks) - idle >= places
