"""Whether a sentence is finished, as far as its words tell. English, as what transcribes them. Pure."""

from __future__ import annotations

import re

UNSURE = 0.5
OPEN = 0.05  # something must follow
PAUSE = 0.15  # Moonshine writes commas, or nothing, where a voice does not come to an end
DONE = 0.75  # it writes full stops rather freely

_DANGLING = """
a an the this these my your his our their its some any every no very too so such another
and or but because since if when while although though unless until than that which who whose whether
to of in on at by for with from into onto about between through during without under over like as
i he she we they i'm we're they're you're i'll we'll i'd i've we've um uh er erm hmm well
"""
DANGLING = frozenset(_DANGLING.split())
QUESTION = frozenset(("what", "where", "when", "who", "whom", "whose", "which", "why", "how"))  # these may end with "from"


def finished(text: str) -> float:
    """How probably nothing follows the words `text`, from 0 to 1."""
    words = re.findall(r"[a-z0-9']+", text.lower().replace("’", "'"))
    if not words:
        return UNSURE
    end = text.rstrip()[-1]
    if words[-1] in DANGLING and not (end == "?" and words[0] in QUESTION):
        return OPEN
    return DONE if end in ".?!" and not text.rstrip().endswith("..") else PAUSE
