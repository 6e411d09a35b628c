"""The page's markup, put together from `page.html` and a fragment for each of its parts."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def markup() -> str:
    """`page.html`, in which `<!-- name.html -->` stands for that file."""
    page = (HERE / "page.html").read_text("utf-8")
    return re.sub(r"<!-- (\w+\.html) -->", lambda name: (HERE / name[1]).read_text("utf-8").strip(), page)
