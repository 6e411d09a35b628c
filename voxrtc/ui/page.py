"""The page: Gradio around one `gr.HTML`, whose life is in the ES modules of `static/`.

Nothing happens here: the browser talks to the HTTP API and over WebRTC, so a busy Gradio queue never delays a sound.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gradio as gr
import msgspec
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.responses import Response
from starlette.routing import Mount

from voxrtc.messages.model import ModelInfo
from voxrtc.settings import ROOT
from voxrtc.ui.door import Door
from voxrtc.ui.history import Minutes, build_history
from voxrtc.ui.markup import markup

STATIC = ROOT / "static"
PREFIX = "/voxrtc"  # never /static, which would hide Gradio's own files

# Later ones build on those before
STYLES = ("tokens", "page", "controls", "talk", "speak", "booth", "shelf", "dashboard", "crowd")
_LINK = '<link rel="{rel}" href="voxrtc/{path}">'
HEAD = "\n".join(
    [_LINK.format(rel="stylesheet", path=f"css/{name}.css") for name in STYLES]
    + [_LINK.format(rel="modulepreload", path=f"js/{path.name}") for path in sorted((STATIC / "js").glob("*.js"))]
)
ADOPT = """
import(new URL("voxrtc/js/page.js", document.baseURI)).then((page) => {
  page.adopt(element, props.value);
  watch("value", () => page.refresh(props.value));
});
"""


KEPT = 600  # seconds that a file which a program asked for can be fetched
SESSIONS = 256  # whose last inputs Gradio keeps; nothing here asks for them, and it would keep ten thousand's

Add = Callable[[gr.Blocks], None]  # puts in what programs may call


def build_page(models: list[ModelInfo], minutes: Minutes = tuple, add: Add = lambda page: None) -> gr.Blocks:
    """The page for these models, the default one first, and for the `minutes` of the last hours."""
    value = {"models": [msgspec.to_builtins(model) for model in models]}
    # What cards say goes to the page as data: Gradio would run a `${…}` in it as JavaScript, were it in the template.
    with gr.Blocks(title="VoxRTC", analytics_enabled=False, delete_cache=(KEPT, KEPT)) as page:
        gr.HTML(value, html_template=markup(), js_on_load=ADOPT, apply_default_css=False)
        build_history(minutes)
        add(page)
    return page


def mount_page(app: FastAPI, models: list[ModelInfo], minutes: Minutes = tuple, add: Add = lambda page: None) -> None:
    """Serve the page at `/` and its files under `/voxrtc/`. Call it last: Gradio answers all that is left."""
    app.mount(PREFIX, _Files(directory=STATIC), name="voxrtc-static")
    page = build_page(models, minutes, add)
    page.state_session_capacity = SESSIONS
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        head=HEAD,
        theme=_theme(),
        favicon_path=str(STATIC / "icon.svg"),
        footer_links=["api"],
        run_history=False,
        ssr_mode=False,
        mcp_server=find_spec("mcp") is not None,
    )
    gradio = app.routes[-1]
    assert isinstance(gradio, Mount)
    gradio.app = Door(gradio.app)
    page._queue.sleep_when_free = 0.05  # its default of 1 ms keeps 7% of a core busy when idle


class _Files(StaticFiles):
    """Files that browsers check for a newer version each time; else an upgrade leaves modules of two versions."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _theme() -> gr.Theme:
    """System fonts only, and the page's own colours behind it, so that nothing flashes while it loads."""
    theme = gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    return theme.set(body_background_fill="#f6f5f1", body_background_fill_dark="#14171a")
