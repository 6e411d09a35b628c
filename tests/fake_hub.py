"""A small Hugging Face hub on loopback: what `huggingface_hub` asks for when it looks at a repository and fetches files.

Tests point `endpoint` or HF_ENDPOINT at its `url`.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BLOCK = 16_384  # bytes that are sent at a time


@dataclass
class Repo:
    """A repository with one revision."""

    files: dict[str, bytes]
    revision: str = "main"
    gated: bool = False  # without a token
    claims: dict[str, int] = field(default_factory=dict)  # sizes that it tells, where they are not true


@dataclass
class Hub:
    """Its repositories by name, what it was asked (method, path, Range), and what shall happen to downloads."""

    repos: dict[str, Repo] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    break_after: int | None = None  # bytes of a file, after which every connection breaks
    gate: threading.Event | None = None  # for which downloads wait when half a file is sent
    broken: int | None = None  # a status that answers everything
    url: str = ""

    def add(self, name: str, folder: Path, **options: object) -> None:
        """A repository with all files of a folder."""
        files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        self.repos[name] = Repo(files, **options)  # type: ignore[arg-type]

    @property
    def downloads(self) -> list[tuple[str, str | None]]:
        """Names of files that were asked for, with the Range."""
        return [(path.rsplit(f"{COMMIT}/", 1)[1], span) for method, path, span in self.asked if "/resolve/" in path]


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Run it in threads until the block ends."""

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        if hub.gate:
            hub.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._error(200 if self.hub.broken is None else self.hub.broken)

    def do_GET(self) -> None:
        self.hub.asked.append((self.command, self.path, self.headers["Range"]))
        parts = self.path.partition("?")[0].strip("/").split("/")
        if self.hub.broken:
            self._error(self.hub.broken)
        elif parts[:2] == ["api", "models"]:  # /api/models/owner/name/revision/main
            self._info("/".join(parts[2:4]), parts[5])
        else:  # /owner/name/resolve/commit/file
            self._file("/".join(parts[:2]), "/".join(parts[4:]))

    def _info(self, name: str, revision: str) -> None:
        repo = self.hub.repos.get(name)
        if repo is None:
            self._error(401, "RepoNotFound")  # it does not tell strangers what is private
        elif revision != repo.revision:
            self._error(404, "RevisionNotFound")
        else:
            siblings = [self._sibling(repo, file) for file in repo.files]
            self._send(json.dumps({"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings}).encode())

    def _sibling(self, repo: Repo, file: str) -> dict[str, object]:
        data = repo.files[file]
        size = repo.claims.get(file, len(data))
        lfs = {"sha256": hashlib.sha256(data).hexdigest(), "size": size, "pointerSize": 130}
        return {"rfilename": file, "size": size, "blobId": "0" * 40, **({"lfs": lfs} if len(data) > 1000 else {})}

    def _file(self, name: str, file: str) -> None:
        repo = self.hub.repos[name]
        if repo.gated and "Authorization" not in self.headers:
            return self._error(401, "GatedRepo")
        data = repo.files[file]
        begin = int(self.headers["Range"].removeprefix("bytes=").partition("-")[0])
        self.send_response(206)
        self.send_header("Content-Length", str(len(data) - begin))
        self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        self._stream(data, begin)

    def _stream(self, data: bytes, begin: int) -> None:
        for place in range(begin, len(data), BLOCK):
            if self.hub.gate and place >= len(data) // 2:
                self.hub.gate.wait(60)
            if self.hub.break_after is not None and place - begin >= self.hub.break_after:
                self.close_connection = True
                return
            try:
                self.wfile.write(data[place : place + BLOCK])
                self.wfile.flush()
            except OSError:  # the listener left
                self.close_connection = True
                return

    def _error(self, status: int, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
