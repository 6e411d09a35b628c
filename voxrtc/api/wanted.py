"""What a client says of the session that it wants, whichever way it calls."""

from __future__ import annotations

from typing import Any

import msgspec

from voxrtc.messages.media import Resume

DEEPER = 64  # than here the stack may be where it is sent or read, which leaves so much less for what is nested
UNSENDABLE = "The session has a number out of range or is nested too deep"


class Wanted(msgspec.Struct, kw_only=True):
    """The settings of a session, and what to resume: of clients that can come back when their line breaks. That is ours."""

    session: dict[str, Any] = {}
    resume: Resume | None = None

    def __post_init__(self) -> None:
        """It goes on to a media process as MessagePack, which JSON's numbers and depth may not have. As a `ValueError` of a
        struct's it is a `msgspec.ValidationError` to who decodes."""
        deeper: object = self.session
        for _ in range(DEEPER):
            deeper = [deeper]
        try:
            msgspec.msgpack.encode(deeper)
        except (OverflowError, RecursionError):
            raise ValueError(UNSENDABLE) from None
