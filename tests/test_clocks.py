"""What reads the clock on the wall, which somebody may set: only what tells people or others a date. All else runs on."""

from __future__ import annotations

import ast
import re
import time

import aioice.turn
import aiortc.rtcrtpreceiver
import aiortc.rtcsctptransport
import pytest
from starlette.requests import HTTPConnection

from voxrtc.api.access import COOKIE, Access
from voxrtc.rtc import ice, sender
from voxrtc.settings import ROOT

DAY = 24 * 3600.0
# What a date is for, by the file that asks for one
TOLD = {
    "voxrtc/api/cloning.py": "a voice's `created_at`",
    "voxrtc/api/history.py": "which minute it was",
    "voxrtc/api/models.py": "a model's `created`",
    "voxrtc/api/stats.py": "when it was so",
    "voxrtc/traces.py": "spans, which others put beside theirs",
    "voxrtc/logs.py": "lines",
    "voxrtc/rtc/sender.py": "where NTP's seconds begin, once",
    "voxrtc/rtc/turn.py": "until when a TURN server believes us",
    "voxrtc/ui/history.py": "the axis of a plot",
    "static/js/dashboard.js": "the axis of a chart, names of files",
    "static/js/export.js": "dates in files",
}
WALL = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.strftime", "time.ctime"}
WALL |= {f"datetime.{name}" for name in ("now", "utcnow", "today", "fromtimestamp")} | {"date.today"}
FILES = {"st_mtime", "st_ctime", "st_atime", "getmtime"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
JS = re.compile(r"\bDate\.now\(|\bnew Date\(")


def asks(code: str) -> bool:
    """Whether Python code asks for the date, or for a file's."""
    nodes = list(ast.walk(ast.parse(code)))
    names = {f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    names |= {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return bool({name.replace("datetime.datetime", "datetime") for name in names} & WALL | attributes & FILES)


def test_only_what_tells_a_date_asks_for_one() -> None:
    python, scripts = sorted((ROOT / "voxrtc").rglob("*.py")), sorted((ROOT / "static").rglob("*.js"))
    assert len(python) > 200 and len(scripts) > 50
    found = {path for path in python if asks(path.read_text("utf-8"))}
    found |= {path for path in scripts if JS.search(COMMENT.sub("", path.read_text("utf-8")))}
    assert {str(path.relative_to(ROOT)) for path in found} == set(TOLD)


@pytest.mark.parametrize(
    "code", ["f(clock=time.time)", "datetime.now()", "datetime.datetime.now()", "path.stat().st_mtime", "from time import time"]
)
def test_the_rule_finds_what_breaks_it(code: str) -> None:
    assert asks(code)
    assert not asks("time.monotonic(), asyncio.get_running_loop().time()")


@pytest.mark.parametrize("jump", [-DAY, -3600.0, 3600.0, 400 * DAY])
def test_a_login_lasts_as_long_whatever_the_wall_says(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(login=("ann", "open sesame"))
    cookie = f"{COOKIE}={access.ticket()}".encode()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert access.admits(HTTPConnection({"type": "http", "headers": [(b"cookie", cookie)]}))


def test_calls_measure_by_a_clock_that_nobody_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ice.MEASURING:
        monkeypatch.setitem(vars(module), "time", vars(module)["time"])  # put back afterwards
    ice.prepare(loopback=False)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    for module in (aiortc.rtcsctptransport, aiortc.rtcrtpreceiver, aioice.turn):
        assert abs(vars(module)["time"].time() - time.monotonic()) < 1.0


def test_reports_to_browsers_go_on_in_ntp_s_seconds() -> None:
    assert abs(time.monotonic() + sender.NTP - 2_208_988_800 - time.time()) < 3600
