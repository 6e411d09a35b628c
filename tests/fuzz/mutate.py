"""Valid things made invalid, by a seed: texts a line or a character at a time, JSON a node at a time."""

from __future__ import annotations

import json
import random
from typing import Any

JUNK = [
    "",
    "\0",
    "\u2028",
    "é" * 9,
    "a=" * 40,
    "m=audio 9 UDP/TLS/RTP/SAVPF 111",
    "-1",
    "9" * 30,
    "%s%n",
    "\ud83d",
    "../../etc/passwd",
    " ",
]
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    10**30,
    1e308,
    -0.5,
    "",
    "x",
    "é" * 3000,
    "\ud800",
    "../..",
    [],
    [[]],
    {},
    {"type": "x"},
    [None] * 50,
]


def text(rng: random.Random, valid: str) -> str:
    """One to three changes."""
    for _ in range(rng.randint(1, 3)):
        valid = rng.choice(CHANGES)(rng, valid)
    return valid


def _lines(change: Any) -> Any:
    def changed(rng: random.Random, valid: str) -> str:
        lines = valid.split("\r\n")
        change(rng, lines, rng.randrange(len(lines)))
        return "\r\n".join(lines)

    return changed


def _shuffle(rng: random.Random, lines: list[str], _: int) -> None:
    rng.shuffle(lines)


def _number(rng: random.Random, lines: list[str], at: int) -> None:
    """A number in the line is another."""
    words = lines[at].split(" ")
    place = rng.randrange(len(words))
    words[place] = rng.choice(["-1", "0", "65536", "4294967296", "9" * 40, "NaN", ""])
    lines[at] = " ".join(words)


def _cut(rng: random.Random, valid: str) -> str:
    return valid[: rng.randrange(len(valid) + 1)]


def _flip(rng: random.Random, valid: str) -> str:
    at = rng.randrange(len(valid) + 1)
    return valid[:at] + chr(rng.choice([0, 9, 13, 58, 61, 255, 0x2603, rng.randrange(32, 127)])) + valid[at + 1 :]


CHANGES = [
    _lines(lambda rng, lines, at: lines.pop(at)),
    _lines(lambda rng, lines, at: lines.insert(at, lines[at])),
    _lines(lambda rng, lines, at: lines.insert(at, rng.choice(JUNK))),
    _lines(lambda rng, lines, at: lines.__setitem__(at, lines[at] + rng.choice(JUNK))),
    _lines(lambda rng, lines, at: lines.__setitem__(at, rng.choice(JUNK))),
    _lines(_shuffle),
    _lines(_number),
    _cut,
    _flip,
]


def value(rng: random.Random, valid: Any) -> Any:
    """The same with one node replaced, left out, or doubled."""
    if rng.random() < 0.15 or not isinstance(valid, dict | list) or not valid:
        return rng.choice(VALUES)
    if isinstance(valid, list):
        at = rng.randrange(len(valid))
        return [*valid[:at], value(rng, valid[at]), *valid[at + (rng.random() < 0.8) :]]
    key = rng.choice(list(valid))
    rest = {name: each for name, each in valid.items() if name != key}
    match rng.randrange(4):
        case 0:
            return rest
        case 1:
            return rest | {rng.choice(["type", "id", "x" * 300, ""]): valid[key]}
        case _:
            return rest | {key: value(rng, valid[key])}


def message(rng: random.Random, valid: Any) -> str:
    """JSON of a changed value, or changed JSON."""
    if rng.random() < 0.7:
        return json.dumps(value(rng, valid))
    return text(rng, json.dumps(valid))
