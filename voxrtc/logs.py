"""A process's log: lines to read, or (`--log-format json`) an object of JSON a line. With it stands whose call, session or
stream it is about; no secret stands there, and nothing that was said.

It is written by a thread of its own. So nothing waits for a terminal that somebody has stopped, a pipe that nobody reads or a
disk that is full: lines that cannot be written are left out, and how many is told as soon as one can be.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from voxrtc.settings import Settings

STDERR = 2  # the descriptor: unlike Python's own stream it keeps nothing back and locks nobody out
MOST = 1_000  # lines that wait to be written
FLUSHED_WITHIN = 1.0  # seconds, at the end

HIDDEN = "(secret)"
IDS = ("call", "session", "stream")
# Libraries that tell a dozen lines a connection, or, for whoever debugs them, all headers: never below this
CALM = {"websockets": logging.INFO, "httpcore": logging.INFO, "python_multipart": logging.INFO}

_about: ContextVar[dict[str, str]] = ContextVar("about", default={})  # noqa: B039  never changed, only replaced


def configure(process: str, settings: Settings, quiet: Collection[str] = ()) -> None:
    """Have all loggers of this process write to standard error; `quiet` ones from warnings on."""
    handler = Aside()
    handler.setFormatter(
        Lines(process, settings.secrets) if settings.log_format == "plain" else Objects(process, settings.secrets)
    )
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for name, level in {**CALM, **dict.fromkeys(quiet, logging.WARNING)}.items():
        logging.getLogger(name).setLevel(max(level, logging.root.level))


def about(**ids: str) -> None:
    """From here on, and in the tasks begun from here, it is about this `call`, `session` or `stream`."""
    _about.set({**_about.get(), **ids})


def ids() -> dict[str, str]:
    """What it is about here."""
    return _about.get()


@contextmanager
def of(**ids: str) -> Iterator[None]:
    """As `about`, in this block."""
    token = _about.set({**_about.get(), **ids})
    try:
        yield
    finally:
        _about.reset(token)


class Aside(logging.Handler):
    """Has lines written to standard error, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str] = queue.Queue(MOST)
        self._crowded = 0  # lines that there was no room for, since the last that there was
        self._failed = 0  # that could not be written, since the last that could; only the thread counts them
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Formatted here: what it is about is known only where it happens."""
        try:
            if self._crowded:
                self._lines.put_nowait(self._left_out(self._crowded))
                self._crowded = 0
            self._lines.put_nowait(self._line(record))
        except queue.Full:
            self._crowded += 1

    def flush(self) -> None:
        """What was logged is written when this returns, if that can be."""
        deadline = time.monotonic() + FLUSHED_WITHIN
        while self._lines.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.001)

    def _line(self, record: logging.LogRecord) -> str:
        """Also of a call whose words and values do not fit: it must not fail for that. (`handleError` would wait for whoever
        reads, and show secrets.)"""
        try:
            return self.format(record)
        except Exception as wrong:  # noqa: BLE001  values have words of their own, which may fail in any way
            why = traceback.format_exception_only(wrong)[-1].rstrip()  # its own words may fail, too; this is ready for that
            at = (record.filename, record.lineno, why)
            return self._notice("a line is missing here: %s:%d logs what cannot be put into words (%s)", *at)

    def _left_out(self, lines: int) -> str:
        return self._notice("%d lines are missing here: they could not be written", lines)

    def _notice(self, words: str, *values: object) -> str:
        about = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": words, "args": values}
        return self.format(logging.makeLogRecord(about))

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            try:
                if self._failed:
                    _write(self._left_out(self._failed))
                    self._failed = 0
                _write(line)
            except OSError:
                self._failed += 1
            finally:
                self._lines.task_done()


def _write(line: str) -> None:
    """Raises `OSError`."""
    rest = f"{line}\n".encode("utf-8", "backslashreplace")
    while rest:
        rest = rest[os.write(STDERR, rest) :]


class _Discreet(logging.Formatter):
    """Leaves secrets out, whatever they have got into."""

    def __init__(self, process: str, secrets: Collection[str]) -> None:
        super().__init__()
        self._process = process
        self._secrets = sorted(secrets, key=len, reverse=True)  # one may be a part of another

    def hide(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def ids(self, record: logging.LogRecord) -> dict[str, str]:
        """From where it was logged, and given with it (`extra`)."""
        return {**_about.get(), **{name: str(vars(record)[name]) for name in IDS if name in vars(record)}}


class Lines(_Discreet):
    """`2026-01-31 12:00:00,123 media INFO a call begins [call rtc_…]`, and an exception below it."""

    def format(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name} {id}" for name, id in self.ids(record).items())
        line = f"{self.formatTime(record)} {self._process} {record.levelname} {record.getMessage()}{ids and f' [{ids}]'}"
        return self.hide("\n".join([line, *_exception(self, record)]))


class Objects(_Discreet):
    """`{"time": "…Z", "process": "media", "level": "INFO", "logger": "…", "message": "…", "call": "rtc_…"}`."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "process": self._process,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self.ids(record),
        }
        if exception := _exception(self, record):
            fields["exception"] = exception[0]
        return json.dumps({name: self.hide(value) for name, value in fields.items()})


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    return [formatter.formatException(record.exc_info)] if record.exc_info else []
