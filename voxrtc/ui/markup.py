"""The page's markup, put together from `page.html`, a fragment for each of its parts, and the words of `static/js/words.js`."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from voxrtc.settings import ROOT

HERE = Path(__file__).parent
WORDS = ROOT / "static" / "js" / "words.js"


def markup() -> str:
    """`page.html`, in which `<!-- name.html -->` stands for that file, and `[[part.name]]` for those words.

    Raises `KeyError` for words that there are not.
    """
    page = (HERE / "page.html").read_text("utf-8")
    page = re.sub(r"<!-- (\w+\.html) -->", lambda name: (HERE / name[1]).read_text("utf-8").strip(), page)
    return _worded(page)


def login_form() -> tuple[str, str]:
    """`login.html`, and what stands there in the place of `<!-- wrong -->` after a try that failed."""
    return _worded((HERE / "login.html").read_text("utf-8")), _worded('<p role="alert">[[login.wrong]]</p>')


def _worded(page: str) -> str:
    said = words()
    return re.sub(r"\[\[(\w+)\.(\w+)\]\]", lambda place: html.escape(said[place[1]][place[2]]), page)


def words() -> dict[str, dict[str, str]]:
    """What `words.js` says in the markup: it is there from the first picture on, before any module runs."""
    found = re.search(r"^export const MARKUP = (\{.*?^\});", WORDS.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found, "words.js must say `export const MARKUP = {…};`"
    return dict(json.loads(found[1]))
