"""Who may import whom (DESIGN: arrows run one way), read from the sources and tried in fresh interpreters."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import voxrtc
from voxrtc.speechlm.registry import FAMILIES

ROOT = Path(voxrtc.__file__).parent
BATCHES = {f"engine.{part}" for part in ("attention", "kv_cache", "loading", "sampling")}  # for any model with a cache
# Plain data and helpers, which import no part of the house; and the face of the engines, without torch
COMMON = {"messages", "settings", "endpoints", "cards", "hub", "lifeline", "logs", "supervisor", "machine", "fit"}
COMMON |= {"learned", "niceness", "pace", "recent", "stalls", "traces"}
CLIENT = {f"engine.{part}" for part in ("client", "fleet", "keeper", "room", "transport")}
MAY_IMPORT = {
    "engine": {"engine", "speechlm.base", "speechlm.alignment", "speechlm.registry", "speechlm.layers.attention"} | COMMON,
    "speechlm": {"speechlm"} | COMMON,
    "rtc": {"rtc"} | COMMON,
    "asr": {"asr", "engine.transport"} | COMMON,
    "llm": {"llm", "speechlm", "engine.transport"} | BATCHES | COMMON,
    "crowd": {"crowd", "rtc"} | CLIENT | COMMON,
    "chat": {"chat", "rtc", "asr.client", "llm.client"} | CLIENT | COMMON,
    "api": {"api", "chat", "crowd", "rtc"} | CLIENT | COMMON,
    "ui": {"ui", "chat", "rtc"} | CLIENT | COMMON,
}


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports, without the package's name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {module(node.module or "", alias.name) for alias in node.names}
    return {name.removeprefix("voxrtc.") for name in found if name.startswith("voxrtc.")}


def module(package: str, name: str) -> str:
    """What `from package import name` loads: a module of that name, or the package itself."""
    path = ROOT.parent / package.replace(".", "/") / name
    return f"{package}.{name}" if path.is_dir() or path.with_suffix(".py").exists() else package


def allowed(module: str, may: set[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in may)


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_arrows_run_one_way(part: str) -> None:
    files = sorted((ROOT / part).rglob("*.py"))
    assert files
    wrong = {
        f"{file.relative_to(ROOT)} -> {module}"
        for file in files
        for module in imports(file)
        if not allowed(module, MAY_IMPORT[part])
    }
    assert not wrong


def test_layers_and_codecs_know_no_family() -> None:
    for shared in ("layers", "codecs"):
        for file in (ROOT / "speechlm" / shared).rglob("*.py"):
            assert not any(allowed(module, {f"speechlm.{family}" for family in FAMILIES}) for module in imports(file)), file


def test_common_modules_import_nothing_else_of_ours() -> None:
    for name in COMMON:
        files = sorted((ROOT / name).rglob("*.py")) or [ROOT / f"{name}.py"]
        for file in files:
            assert all(allowed(module, COMMON) for module in imports(file)), file


MODELS = ("lark.model", "cosyvoice2.model", "csm.model", "orpheus", "pocket.model", "stepaudio2.model")


@pytest.mark.parametrize(
    ("modules", "never"),
    [
        ("voxrtc.web", {"torch"}),
        ("voxrtc.chat.media", {"torch", "gradio", "moonshine_voice"}),
        ("voxrtc.asr.process", {"torch", "aiortc"}),
        ("voxrtc.llm.process", {"torch", "aiortc"}),  # torch not before its socket is there
        ("voxrtc.engine.process", {"torch", "aiortc", "gradio"}),  # torch not before there are files to read
        (", ".join(f"voxrtc.speechlm.{model}" for model in MODELS), {"aiortc", "transformers"}),
        ("voxrtc.cards", {"torch"}),
    ],
)
def test_processes_stay_light(modules: str, never: set[str]) -> None:
    """What a process imports, all the way down."""
    code = f"import sys, {modules}; print(*sys.modules.keys() & {never})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split(), f"{modules} pulls that in"
