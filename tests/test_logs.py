from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from voxrtc import logs
from voxrtc.settings import Settings

KEY, PASSWORD = "sk-0123456789abcdef", 'pass"wörd'
log = logging.getLogger("voxrtc.of.a.test")
Written = Callable[[], str]


@pytest.fixture
def written(capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Iterator[Written]:
    """What a process of these settings has written; pytest's own handlers come back after it."""
    before, level = logging.root.handlers[:], logging.root.level
    logging.root.handlers[:] = []
    logs.configure(
        "media", Settings(chat_key=KEY, auth=f"ann:{PASSWORD}", log_level="DEBUG", log_format=request.param), ["calm"]
    )

    def read() -> str:
        logging.root.handlers[0].flush()
        return capfd.readouterr().err

    yield read
    logging.root.handlers[:] = before
    logging.root.setLevel(level)
    logging.getLogger("calm").setLevel(logging.NOTSET)


def objects(written: Written) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written().splitlines()]


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_a_line_is_an_object(written: Written) -> None:
    log.warning("it is %d\nlines", 2)
    with logs.of(call="rtc_1"):
        log.info("it begins", extra={"stream": "resp_2"})
    log.info("it goes on")
    logging.getLogger("calm").info("chatter")
    logging.getLogger("websockets.server").debug("> Authorization: …")
    first, second, third = objects(written)
    assert {name: first[name] for name in ("process", "level", "logger", "message")} == {
        "process": "media",
        "level": "WARNING",
        "logger": "voxrtc.of.a.test",
        "message": "it is 2\nlines",
    }
    assert first["time"].endswith("Z") and "call" not in first
    assert (second["call"], second["stream"]) == ("rtc_1", "resp_2")
    assert "call" not in third


@pytest.mark.parametrize("written", ["json", "plain"], indirect=True)
def test_no_secret_is_in_it_wherever_it_came_from(written: Written) -> None:
    log.error("the key %s is wrong", KEY)
    try:
        raise ValueError(f"Authorization: Bearer {KEY}, or {PASSWORD}")
    except ValueError:
        log.exception("it failed with %r", {"password": PASSWORD})
    log.info("of it", extra={"call": KEY})
    text = written()
    assert text.count(logs.HIDDEN) == 5
    assert KEY not in text and PASSWORD not in text and json.dumps(PASSWORD)[1:-1] not in text
    assert "Traceback" in text and "ValueError" in text


@pytest.mark.parametrize("written", ["plain"], indirect=True)
def test_lines_can_be_read(written: Written) -> None:
    with logs.of(call="rtc_1", session="sess_2"):
        log.info("it begins")
    log.info("it goes on")
    first, second = written().splitlines()
    assert first.endswith(" media INFO it begins [call rtc_1 session sess_2]")
    assert second.endswith(" media INFO it goes on")


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_tasks_know_what_they_are_about(written: Written) -> None:
    async def call(name: str) -> None:
        logs.about(call=name)

        async def stream() -> None:
            logs.about(stream=f"of {name}")
            await asyncio.sleep(0)
            log.info("sounds")

        await asyncio.create_task(stream())
        log.info("over")

    async def both() -> None:
        await asyncio.gather(call("a"), call("b"))

    asyncio.run(both())
    told = [each for each in objects(written) if each["logger"] == log.name]
    assert {(each["message"], each["call"], each.get("stream")) for each in told} == {
        ("sounds", "a", "of a"),
        ("sounds", "b", "of b"),
        ("over", "a", None),
        ("over", "b", None),
    }


@pytest.mark.parametrize("written", ["plain", "json"], indirect=True)
def test_a_call_of_the_log_that_is_wrong_harms_nobody(written: Written) -> None:
    class Mute:
        def __init__(self, why: Exception) -> None:
            self.why = why

        def __str__(self) -> str:
            raise self.why

    class NoWords(Exception):
        def __str__(self) -> str:
            raise LookupError

    alone = logging.Logger("alone")  # pytest's own handlers would fail
    alone.addHandler(logging.root.handlers[0])
    alone.warning("%d lines of %s", "a", KEY)
    alone.warning("one value", "too many")
    alone.warning("of %s", "it", extra={"call": Mute(LookupError(KEY))})
    alone.warning("of %s", Mute(NoWords()))
    alone.warning("it goes on")
    *lines, last = written().splitlines()
    assert [line.partition("is missing here: ")[2].split(":")[0] for line in lines] == ["test_logs.py"] * 4
    assert "TypeError" in lines[0] and f"LookupError: {logs.HIDDEN}" in lines[2]
    assert "it goes on" in last


def child(code: str) -> list[str]:
    """Python that logs as a process of ours does, then runs `code`."""
    begin = "import logging, os, time; from voxrtc import logs; from voxrtc.settings import Settings\n"
    return [sys.executable, "-c", f"{begin}logs.configure('media', Settings())\nlog = logging.getLogger('voxrtc')\n{code}"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_stops_nobody_and_raises_nothing() -> None:
    code = "[log.warning('line %d', number) for number in range(5_000)]; print('it goes on')"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(child(code), stdout=subprocess.PIPE, stderr=full, timeout=60, check=True)
    assert done.stdout == b"it goes on\n"


def test_who_does_not_read_the_log_stops_nobody_and_is_told_what_is_missing() -> None:
    code = """
for number in range(5_000):
    log.warning("line %d", number)
print("it goes on", flush=True)
input()
logging.root.handlers[0].flush()
log.warning("the last line")
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(child(code), text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdin and process.stdout and process.stderr
        waiting = threading.Timer(30, process.kill)
        waiting.start()
        assert process.stdout.readline() == "it goes on\n", "a pipe holds some hundred lines"
        first = [process.stderr.readline() for _ in range(100)]
        process.stdin.write("\n")
        process.stdin.flush()
        lines = [*first, *process.stderr.read().splitlines()]
        waiting.cancel()
    assert [" ".join(line.split()[4:]) for line in lines[:2]] == ["line 0", "line 1"]
    assert lines[-1].endswith("the last line")
    notices = [line for line in lines if "lines are missing here" in line]
    missing = sum(int(line.split()[4]) for line in notices)
    assert missing > 1_000 and len(lines) - len(notices) + missing == 5_001
