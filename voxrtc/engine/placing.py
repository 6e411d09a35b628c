"""Which of several replicas gets what: a stream whoever has its voice, or what was said in its conversation, else most room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from voxrtc.engine.link import Link
from voxrtc.engine.router import Replica, capacity, choose
from voxrtc.messages.conversation import hearings
from voxrtc.messages.engine import Generate

OF = "/"  # parts a hearing's id from the conversation's: see `Hear`
VOICES, HEARINGS = 64, 4096  # recordings, and things said, of which it is known where they were heard


class Homes:
    """Where things are, by their keys: the names of replicas. Of at most so many, the latest; "" is nowhere."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: OrderedDict[str, str] = OrderedDict()

    def get(self, key: str) -> str:
        return self._names.get(key, "")

    def put(self, key: str, name: str) -> None:
        self._names[key] = name
        self._names.move_to_end(key)
        if len(self._names) > self._most:
            self._names.popitem(last=False)

    def pop(self, key: str) -> str:
        return self._names.pop(key, "")


class Placing:
    """Among these replicas, by their names. "" is nowhere."""

    def __init__(self, links: Mapping[str, Link]) -> None:
        self._links = links
        self._voices = Homes(VOICES)  # of recordings, by their digests: who made them into voices
        self._hearings = Homes(HEARINGS)  # who heard what people said

    def stream(self, request: Generate) -> str:
        """Who takes it."""
        voice = request.reference.digest if request.reference else ""
        said = hearings(request.conversation)
        name = self._choose(self._hearings.get(said[-1]) if said else self._voices.get(voice), surely=bool(said))
        if name and voice:
            self._voices.put(voice, name)
        return name

    def hearing(self, hearing: str, first: bool) -> str:
        """Who hears this, and if need be who is to: the one that heard the conversation so far."""
        if not self._hearings.get(hearing) and first:
            conversation = hearing.rpartition(OF)[0]
            name = self._choose(self._hearings.get(conversation), surely=True)
            for key in (hearing, conversation):
                self._hearings.put(key, name)
        return self._hearings.get(hearing)

    def forget_hearing(self, hearing: str) -> str:
        """Who heard it."""
        return self._hearings.pop(hearing)

    def forget_voice(self, digest: str) -> None:
        """Its recording is gone."""
        self._voices.pop(digest)

    def _choose(self, home: str, surely: bool) -> str:
        """A replica for one more stream, whose things are at `home`: that one `surely`, however full."""
        able = [link for link in self._links.values() if link.ready and not link.draining]
        if surely and any(link.name == home for link in able):
            return home
        return choose([_known(link, home) for link in able]) if able else ""


def _known(link: Link, home: str) -> Replica:
    """Of a ready one. Streams of other routers are as many as they were at the last look, ours are known."""
    assert link.progress and link.progress.info
    stats = link.stats
    ours = link.streams.keys() | link.ended
    others = sum(each.stream not in ours for each in stats.streams) if stats else 0
    room = capacity(stats.costs, link.progress.info.frame_rate, stats.slots) if stats else 1
    return Replica(link.name, others + len(link.streams), room, near=link.name == home)
