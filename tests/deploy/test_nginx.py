"""The configuration for nginx that `docs/DEPLOY.md` gives, as it stands: TLS, WebSockets, events and sound as they come."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.api.test_public import OFFER, PATH, QUEUE, Open, code, read
from tests.fake_engine import TONE_MODEL
from tests.program import ROOT
from tests.serving import serving
from tests.waiting import eventually
from voxrtc.api.host import Rules
from voxrtc.bench.program import free_port
from voxrtc.ui.page import mount_page

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
NAME, VISITOR = "voice.example.org", "127.0.0.2"

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(not (NGINX and shutil.which("openssl")), reason="needs nginx and openssl"),
]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def nginx(folder: Path, behind: int, path: str = "") -> Iterator[int]:
    """The port on which nginx serves, with TLS, what listens at `behind`: the documentation's server, elsewhere.

    Or under a `path`, with the two changes that the documentation names.
    """
    front = free_port()
    key, certificate = folder / "privkey.pem", folder / "fullchain.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    subprocess.run([*made, "-subj", f"/CN={NAME}", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = (ROOT / "docs/deploy/nginx.conf").read_text("utf-8")
    if path:
        server = server.replace("location / {", f"location {path}/ {{")
        server = server.replace("proxy_pass http://voxrtc;", "proxy_pass http://voxrtc/;")
    for there, here in (
        ("127.0.0.1:7860", f"127.0.0.1:{behind}"),
        ("listen 443 ssl", f"listen 127.0.0.1:{front} ssl"),
        ("listen 80", f"listen 127.0.0.1:{free_port()}"),
        (f"/etc/letsencrypt/live/{NAME}", str(folder)),
    ):
        assert there in server
        server = server.replace(there, here)
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    whole = f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\nhttp {{ access_log off; {temporary}\n{server}\n}}"
    (folder / "nginx.conf").write_text(whole)
    with subprocess.Popen(
        [str(NGINX), "-p", folder, "-c", folder / "nginx.conf"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            eventually(lambda: listens(front) or process.poll() is not None)
            assert process.poll() is None, process.stderr and process.stderr.read()
            yield front
        finally:
            process.terminate()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Open]:
    """A public host behind nginx; its `url` is nginx's."""
    ours = Open(Rules(calls=1, starts=100, places=1, seconds=600), speed=1.0)
    mount_page(ours.app, [TONE_MODEL])
    with serving(ours.app, proxies="127.0.0.1") as (_, port), nginx(tmp_path, port) as front:
        ours.url = f"https://127.0.0.1:{front}"
        yield ours


def client(house: Open) -> httpx.Client:
    """From an address that is no proxy's."""
    way = httpx.HTTPTransport(verify=False, local_address=VISITOR)
    return httpx.Client(base_url=house.url, transport=way, headers={"Host": NAME}, timeout=20)


def test_the_page_and_all_that_it_names_are_there(house: Open) -> None:
    with client(house) as browser:
        page = browser.get("/")
        assert page.status_code == 200
        assert f"http://{NAME}" not in page.text, "a page on https asks for nothing by http"
        assert f"https://{NAME}" in page.text
        for path in named(page.text):
            assert browser.get(f"/{path}").status_code == 200, path


def named(page: str) -> set[str]:
    """Files that a page names by where they are from itself."""
    found = {
        path.removeprefix("./") for path in re.findall(r'(?:src|href)="((?:\./|voxrtc/|assets/)[^"]+)"', page.replace("\\", ""))
    }
    assert len(found) > 20
    return found


def test_under_a_path_of_a_site_nothing_is_asked_for_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_ROOT_PATH", "/voice")
    ours = Open(Rules(calls=1, starts=100, places=1, seconds=600))
    mount_page(ours.app, [TONE_MODEL])
    with serving(ours.app, proxies="127.0.0.1") as (_, port), nginx(tmp_path, port, "/voice") as front:
        ours.url = f"https://127.0.0.1:{front}/voice"
        with client(ours) as browser:
            page = browser.get("/")
            assert f'"root":"https://{NAME}/voice"' in page.text.replace("\\", "")
            assert not re.search(r'(?:src|href)="/(?!/|manifest.json)', page.text), (
                "but for Gradio's manifest, which nobody needs"
            )
            for path in {*named(page.text), "config", "gradio_api/info", "v1/voxrtc/ice"}:
                assert browser.get(f"/{path}").status_code == 200, path
            assert browser.post(PATH, **OFFER).status_code == 201  # type: ignore[arg-type]


def test_a_call_has_its_own_address_and_place(house: Open) -> None:
    with client(house) as browser:
        answer = browser.post(PATH, **OFFER)  # type: ignore[arg-type]
        assert (answer.status_code, answer.text) == (201, "v=0\r\n")
        assert code(browser.post(PATH, **OFFER)) == (429, "too_many_of_yours")  # type: ignore[arg-type]
        (call,) = house.host._calls.values()
        assert call.address == VISITOR
        lie = {"X-Forwarded-For": "9.9.9.9"} | OFFER["headers"]  # type: ignore[operator]
        assert browser.post(PATH, content="v=0\r\n", headers=lie).status_code == 429, "nobody chooses an address"
        assert browser.delete(answer.headers["Location"]).status_code == 204


def test_sound_comes_as_it_is_made(house: Open) -> None:
    """A buffering proxy would hold 2 s of speech until its end."""
    wish = {"input": "word " * 20, "response_format": "pcm"}
    with client(house) as browser, browser.stream("POST", "/v1/audio/speech", json=wish) as answer:
        began = time.monotonic()
        parts = answer.iter_raw()
        next(parts)
        first = time.monotonic() - began
        rest = sum(map(len, parts))
        assert rest > 19 * 4800 * 0.9
        assert first < (time.monotonic() - began) / 4


def test_events_come_as_they_happen(house: Open) -> None:
    with client(house) as browser:
        answer = browser.post(PATH, **OFFER)  # type: ignore[arg-type]
        with client(house) as other, other.stream("GET", QUEUE) as line:
            news = line.iter_lines()
            assert read(news)["position"] == 1
            browser.delete(answer.headers["Location"])
            while "ticket" not in (told := read(news)):
                assert told["position"] == 1


def websocket(house: Open, origin: str) -> ClientConnection:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    front = socket.create_connection(("127.0.0.1", int(house.url.rpartition(":")[2])), source_address=(VISITOR, 0))
    return connect(f"wss://{NAME}/v1/realtime", sock=front, ssl=context, additional_headers={"Origin": origin})


def test_a_websocket_goes_through(house: Open) -> None:
    with websocket(house, f"https://{NAME}") as ours:
        ours.send('{"type":"response.create"}')
        assert json.loads(ours.recv(10)) == {"type": "response.create"}, "the fake media process echoes"
    with websocket(house, "https://other.example.org") as foreign:
        assert json.loads(foreign.recv(10))["error"]["code"] == "cross_origin"
