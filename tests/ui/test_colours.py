"""The colours of `static/css/tokens.css` by the rules of WCAG 2.2 AA: what is to be read, and what is only to be seen."""

from __future__ import annotations

import re

import pytest

from voxrtc.ui.page import STATIC

TEXT, GRAPHIC = 4.5, 3.0  # the least contrast
INKS = ["ink", "soft", "accent", "warn", "unlit"]
GROUNDS = ["paper", "card", "track", "accent-wash", "warn-wash"]
WORDED = ["dry", "policy-fifo", "policy-two_phase", "policy-playout"]  # said in words on a card, too


def scheme(name: str) -> dict[str, str]:
    """The custom properties of `light` or `dark`."""
    light, dark = (STATIC / "css" / "tokens.css").read_text("utf-8").split("\n.dark ")
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", {"light": light, "dark": dark}[name]))


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_what_the_standard_says() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01), "known to be just too little for text"


@pytest.mark.parametrize("name", ["light", "dark"])
def test_all_can_be_read_and_seen(name: str) -> None:
    colours = scheme(name)
    pairs = [(ink, ground, TEXT) for ink in INKS for ground in GROUNDS] + [("accent-ink", "accent", TEXT)]
    pairs += [(name, "card", TEXT) for name in WORDED]
    bars = colours.keys() - {*INKS, *GROUNDS, "accent-ink", "line", "warn-line"}
    pairs += [(bar, ground, GRAPHIC) for bar in bars for ground in ("card", "track")]
    measured = {f"{one} on {other}": (contrast(colours[one], colours[other]), least) for one, other, least in pairs}
    assert {pair: value for pair, (value, least) in measured.items() if value < least} == {}


def test_both_schemes_have_the_same_colours_and_parts_bring_none_of_their_own() -> None:
    """A colour that only one scheme knows is the other's, in the dark."""
    assert scheme("light").keys() == scheme("dark").keys()
    for sheet in (STATIC / "css").glob("*.css"):
        used = re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(", sheet.read_text("utf-8"))
        assert sheet.name == "tokens.css" or not used, f"{sheet.name} has colours of its own: {used}"
