"""What the sources must not do: run what a file says, or open a file that a visitor names."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_engine import TONE_MODEL
from voxrtc.cards import CardError, read_card, read_files
from voxrtc.chat.choice import choose
from voxrtc.chat.events import EventError
from voxrtc.settings import ROOT

SOURCES = [ROOT / "app.py", *sorted((ROOT / "voxrtc").rglob("*.py")), *sorted((ROOT / "models").rglob("*.py"))]
RUN = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}


def unsafe(code: str) -> list[str]:
    """What reads a file such that the file can run code, or hands text to a shell or to Python."""
    nodes, found = list(ast.walk(ast.parse(code))), []
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    safe = {"yaml.SafeLoader"} | {
        each.name for each in classes if [ast.unparse(base) for base in each.bases] == ["yaml.SafeLoader"]
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] in RUN]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in RUN:
            found.append(node.module or "")
        elif isinstance(node, ast.Call):
            words = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            match ast.unparse(node.func):
                case "torch.load" if words.get("weights_only") != "True":
                    found.append("torch.load")
                case "np.load" | "numpy.load" if words.get("allow_pickle", "False") != "False":
                    found.append("np.load")
                case "yaml.load" if safe.isdisjoint([*words.values(), *map(ast.unparse, node.args)]):
                    found.append("yaml.load")
                case "yaml.unsafe_load" | "yaml.full_load" | "eval" | "exec" | "os.system" | "os.popen" as name:
                    found.append(name)
                case name if name.startswith("subprocess.") and words.get("shell", "False") != "False":
                    found.append(name)
    return found


def test_no_file_is_run_when_it_is_read() -> None:
    found = {str(path.relative_to(ROOT)): unsafe(path.read_text("utf-8")) for path in SOURCES}
    assert len(found) > 200
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "class Mine(yaml.Loader): ...\nyaml.load(text, Mine)",
        "subprocess.run(words, shell=True)",
        "eval(text)",
    ],
)
def test_the_rule_finds_what_breaks_it(code: str) -> None:
    assert unsafe(code)


NAMES = ["../secret", "/etc/passwd", "lark/../../secret", "..\\secret", "secret\0.yaml", "*", ".", ""]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_s_name_is_no_path(name: str, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (tmp_path / "secret.yaml").write_text("name: secret\npath: .\nsources: []\n")
    for read in (read_card, read_files):
        with pytest.raises(CardError, match="There is no model"):
            read(models, name)
    if name:
        with pytest.raises(EventError):
            choose([TONE_MODEL], name, None)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_a_voice_s_name_is_no_path(name: str) -> None:
    with pytest.raises(EventError):
        choose([TONE_MODEL], TONE_MODEL.name, name)


def test_no_library_tells_its_maker_of_its_use(tmp_path: Path) -> None:
    """ONNX Runtime would, from a file of its own and by a thread."""
    code = "import voxrtc, onnxruntime; onnxruntime.InferenceSession(__import__('sys').argv[1])"
    model = next((ROOT / "tests" / "golden").rglob("*.onnx"))
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, model], cwd=ROOT, env=environment, check=True)
    assert not list(tmp_path.iterdir())
