"""The page as the server gives it out; what it does is tested in a browser (`tests/e2e`)."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.fake_engine import TONE_MODEL
from voxrtc.ui.markup import HERE, markup
from voxrtc.ui.page import PREFIX, STATIC, build_page, mount_page

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
