"""How this server is reached, and by whom."""

from __future__ import annotations

from dataclasses import dataclass, field

from voxrtc.api.access import Access
from voxrtc.api.drain import Drain, Draining
from voxrtc.api.host import Anyone, Host, PublicHost
from voxrtc.rtc.turn import Relays


@dataclass(frozen=True)
class Hosting:
    """`relays` are for browsers and, where it is `relayed`, for this server as well; `public` is there if all may come, and
    `drain` is how it ends.

    Pages of `origins` may use it as its own page does, and show that in a frame; those of `frames` may do the latter.
    """

    relays: Relays = field(default_factory=lambda: Relays(None))
    relayed: bool = False
    public: PublicHost | None = None
    access: Access = field(default_factory=Access)
    origins: frozenset[str] = frozenset()
    frames: frozenset[str] = frozenset()
    drain: Drain = field(default_factory=Drain)

    @property
    def host(self) -> Host:
        return Draining(self.public or Anyone(), self.drain)

    @property
    def ours(self) -> Relays:
        """The relays that this server goes through."""
        return self.relays if self.relayed else Relays(None)
