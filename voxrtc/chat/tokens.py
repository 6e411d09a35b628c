"""The token of a session that its client may come back to: a secret, and the media process that has the session."""

from __future__ import annotations

import secrets


def new_token(process: str) -> str:
    """A fresh one, for a session of this process."""
    return f"{secrets.token_urlsafe(18)}.{process}"


def process_of(token: str) -> str:
    """The process that a token names; of one that is not ours, anything."""
    return token.rpartition(".")[2]
