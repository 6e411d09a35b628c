"""What is remembered of models' speeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxrtc.learned import Learned


def test_a_speed_is_known_in_the_next_run_and_for_the_device_it_was_seen_on(tmp_path: Path) -> None:
    file, model = tmp_path / "cache" / "speeds.json", tmp_path / "model"
    model.mkdir()
    first = Learned("cpu", file)
    assert first.speed(model) is None
    first.note(model, 4.6)
    assert first.speed(model) == 4.6
    Learned("H100", file).note(model, 30.0)
    again = Learned("cpu", file)
    assert (again.speed(model), Learned("H100", file).speed(model)) == (4.6, 30.0)
    again.note(model, 4.7)
    assert again.speed(model) == 4.6, "the same but for chance"
    again.note(model, 2.0)
    assert Learned("cpu", file).speed(model) == 2.0
    assert [path.name for path in file.parent.iterdir()] == ["speeds.json"]


def test_models_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    file, gone, here = tmp_path / "speeds.json", tmp_path / "gone", tmp_path / "here"
    gone.mkdir(), here.mkdir()
    Learned("cpu", file).note(gone, 1.0)
    gone.rmdir()
    Learned("cpu", file).note(here, 2.0)
    assert f"{gone}" not in file.read_text() and Learned("cpu", file).speed(here) == 2.0


@pytest.mark.parametrize("damage", ["", "[1]", '{"a": 1}'])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "speeds.json"
    file.write_text(damage)
    learned = Learned("cpu", file)
    assert learned.speed(tmp_path) is None
    learned.note(tmp_path, 2.0)
    assert Learned("cpu", file).speed(tmp_path) == 2.0


def test_a_folder_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    learned = Learned("cpu", tmp_path / "file" / "speeds.json")
    learned.note(tmp_path, 2.0)
    assert learned.speed(tmp_path) == 2.0
