"""The page as the server gives it out; what it does is tested in a browser (`tests/e2e`)."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.routing import Mount

from tests.fake_engine import TONE_MODEL
from voxrtc.ui.door import Door
from voxrtc.ui.markup import HERE, markup
from voxrtc.ui.page import PREFIX, SESSIONS, STATIC, build_page, mount_page

NAMES = {"Location", "Escape", "Enter", "Space"}  # of headers and keys: nobody reads them


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    mount_page(app, [TONE_MODEL])
    return TestClient(app)


def test_cards_are_data_and_never_template() -> None:
    """Gradio runs a `${…}` of its template as JavaScript; a card's words are not ours to run."""
    html = next(block for block in build_page([TONE_MODEL]).blocks.values() if block.get_block_name() == "html")
    assert html.value["models"][0]["name"] == "tone"
    assert not re.search(r"\$\{|\{\{", html.html_template)


def test_each_part_has_its_place_once() -> None:
    """In the order in which a phone shows them: talk comes first."""
    parts = re.findall(r'<section [^>]*data-part="(\w+)"', markup())
    assert parts == ["shelf", "dashboard", "crowd"]
    assert markup().index('name="talk"') < markup().index('data-part="shelf"')
    assert not re.search(r"<!--|\[\[", markup())


def test_the_page_and_every_module_are_served(client: TestClient) -> None:
    """And checked for a newer version each time."""
    text = client.get("/").text
    files = [path.relative_to(STATIC).as_posix() for kind in ("css", "js") for path in (STATIC / kind).glob("*.*")]
    assert len(files) > 20
    for path in files:
        assert f"voxrtc/{path}" in text
        response = client.get(f"/voxrtc/{path}")
        assert response.status_code == 200
        assert response.headers["cache-control"] == "no-cache"


def test_gradios_files_have_hashes_in_their_names(client: TestClient) -> None:
    """Browsers may keep them for ever: `api.guard.HASHED`."""
    files = re.findall(r'(?:src|href)="[./]*(assets/[^"]+)"', client.get("/").text)
    assert len(files) > 1 and all(re.search(r"-[\w-]{8,}\.(js|css)$", file) for file in files), files


def test_modules_import_only_what_is_there() -> None:
    """Without a bundler nothing else would notice before the browser does."""
    for module in (STATIC / "js").glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', module.read_text("utf-8")):
            assert (STATIC / "js" / name).is_file(), f"{module.name} imports {name}"


def test_what_people_read_is_in_one_file() -> None:
    """Other modules say no sentence, nor a button's word."""
    said = re.compile(r"""(["'`])[A-Z][a-z]+( [^"'`]*|)[a-z.…!?]\1""")
    for module in (STATIC / "js").glob("*.js"):
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", module.read_text("utf-8"), flags=re.S)
        sentences = [found[0] for found in said.finditer(code) if found[0].strip("\"'`") not in NAMES]
        assert (module.name == "words.js") == bool(sentences), f"{module.name} says {sentences}"
    for fragment in HERE.glob("*.html"):
        text = re.sub(r"\[\[.*?\]\]|VoxRTC", "", fragment.read_text("utf-8"))
        assert not re.search(r">[^<]*[a-zA-Z]|(placeholder|title|aria-label)=\"[^\"]", text), fragment.name


def test_routes_before_the_page_keep_their_paths() -> None:
    """Gradio answers what nothing else does."""
    app = FastAPI()
    app.get("/healthz")(lambda: {"status": "ok"})
    mount_page(app, [TONE_MODEL])
    assert TestClient(app).get("/healthz").json() == {"status": "ok"}
    assert PREFIX != "/static"


# --- what of Gradio is open ---

BIG = b"x" * 3_000_000  # no form keeps so much in memory


def inside(app: FastAPI) -> Any:
    """Gradio's application."""
    mount = app.routes[-1]
    assert isinstance(mount, Mount) and isinstance(mount.app, Door)
    return mount.app._app


def gradios(app: FastAPI, *methods: str) -> list[tuple[str, str]]:
    """Its routes with these methods."""
    there = inside(app).openapi()["paths"].items()
    return [(each, re.sub(r"[{}]|:path", "", path)) for path, found in there for each in found if each.upper() in methods]


def test_no_route_of_gradios_takes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "gradio"))
    (tmp_path / "tmp").mkdir()
    app = FastAPI()
    mount_page(app, [TONE_MODEL])
    routes = gradios(app, "POST", "PUT", "PATCH", "DELETE")
    assert {"/gradio_api/upload", "/gradio_api/process_recording", "/gradio_api/component_server"} <= {
        path for _, path in routes
    }
    client = TestClient(app, raise_server_exceptions=False)
    for method, path in [*routes, ("post", "/gradio_api/upload/"), ("post", "//gradio_api/upload"), ("post", "/")]:
        files = {name: (f"{name}.mp4", BIG) for name in ("files", "video", "file")}
        answer = client.request(method, path, files=files, data={"remove_segment_start": "0", "remove_segment_end": "1"})
        assert 400 <= answer.status_code < 500, (method, path, answer.text)
        if "error" in answer.json():
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_gradio_keeps_the_inputs_of_few_sessions() -> None:
    """A session is whatever its caller names, and an input as large as a body."""
    app = FastAPI()
    mount_page(app, [TONE_MODEL])
    assert inside(app).state_holder.capacity == SESSIONS < 1000


@pytest.mark.parametrize(
    "path",
    ["file=http://example.com/a.mp4", "file=https:%2F%2Fexample.com", "file/http://example.com", "proxy=https://a.hf.space/b"]
    + ["deep_link?session_hash=a", "upload_progress?upload_id=a", "dev/reload"],
)
def test_no_address_is_fetched_and_nothing_written_by_reading(client: TestClient, path: str) -> None:
    for method in ("GET", "HEAD"):
        assert client.request(method, f"/gradio_api/{path}").status_code == 403
