from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from voxrtc import logs
from voxrtc.settings import Settings

KEY, PASSWORD = "sk-0123456789abcdef", 'pass"wörd'
log = logging.getLogger("voxrtc.of.a.test")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What a process of these settings writes; pytest's own handlers come back after it."""
    before, level = logging.root.handlers[:], logging.root.level
    logging.root.handlers[:] = []
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    logs.configure(
        "media", Settings(chat_key=KEY, auth=f"ann:{PASSWORD}", log_level="DEBUG", log_format=request.param), ["calm"]
    )
    yield stream
    logging.root.handlers[:] = before
    logging.root.setLevel(level)
    logging.getLogger("calm").setLevel(logging.NOTSET)


def objects(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_a_line_is_an_object(written: io.StringIO) -> None:
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
def test_no_secret_is_in_it_wherever_it_came_from(written: io.StringIO) -> None:
    log.error("the key %s is wrong", KEY)
    try:
        raise ValueError(f"Authorization: Bearer {KEY}, or {PASSWORD}")
    except ValueError:
        log.exception("it failed with %r", {"password": PASSWORD})
    log.info("of it", extra={"call": KEY})
    text = written.getvalue()
    assert text.count(logs.HIDDEN) == 5
    assert KEY not in text and PASSWORD not in text and json.dumps(PASSWORD)[1:-1] not in text
    assert "Traceback" in text and "ValueError" in text


@pytest.mark.parametrize("written", ["plain"], indirect=True)
def test_lines_can_be_read(written: io.StringIO) -> None:
    with logs.of(call="rtc_1", session="sess_2"):
        log.info("it begins")
    log.info("it goes on")
    first, second = written.getvalue().splitlines()
    assert first.endswith(" media INFO it begins [call rtc_1 session sess_2]")
    assert second.endswith(" media INFO it goes on")


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_tasks_know_what_they_are_about(written: io.StringIO) -> None:
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
