"""Words that a listener says without wanting the floor. English, as what transcribes them. Pure."""

from __future__ import annotations

import re

LONGEST = 4  # words

_WORDS = """
mm mmm mhm mmhmm mhmm hm hmm hmmm uh huh uhhuh um ah aha oh ooh wow yeah yea yep yup yes ok okay right sure true exactly
absolutely totally cool nice great good fine interesting really indeed alright
"""
WORDS = frozenset(_WORDS.split())
PHRASES = re.compile(r"\b(i see|got it|of course|all right|i know|go on|makes sense|fair enough)\b")


def is_backchannel(text: str) -> bool:
    """Whether `text` asks for nothing and says nothing: "Mm-hmm." or "Okay, right", or no words at all."""
    plain = re.sub(r"[^a-z' ]", " ", text.lower())
    words = PHRASES.sub("okay", plain).split()
    return len(words) <= LONGEST and WORDS.issuperset(words)
