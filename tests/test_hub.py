"""Files from a hub into a card's folder, and what is said when they do not come. The hub is one of ours, on loopback."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

from tests.fake_hub import BLOCK, COMMIT, Hub, Repo, serving
from tests.test_cards import CARD, SOURCES, write
from voxrtc import hub as ours
from voxrtc.cards import Card, read_card
from voxrtc.hub import HubError, fetch

WEIGHTS = random.Random(0).randbytes(200_000)
SONG = random.Random(1).randbytes(50_000)


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    with serving(hub):
        for name, files in {
            "birds/wren": {"model-1.safetensors": WEIGHTS, "config.json": b"{}", "README.md": b"no"},
            "birds/song": {"song.bin": SONG},
        }.items():
            hub.repos[name] = Repo(files)
        hub.repos["birds/wren"].revision = "v1"
        yield hub


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no token"))
    monkeypatch.setattr(ours, "PAUSE", 0.0)
    write(tmp_path, CARD + SOURCES)
    return read_card(tmp_path, "wren")


def get(card: Card, hub: Hub) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    fetch(card, lambda done, total: told.append((done, total)), hub.url)
    return told


def failure(card: Card, hub: Hub) -> str:
    with pytest.raises(HubError) as failed:
        get(card, hub)
    return str(failed.value)


def test_the_cards_files_come_and_nothing_else(card: Card, hub: Hub) -> None:
    told = get(card, hub)
    assert (card.folder / "model-1.safetensors").read_bytes() == WEIGHTS
    assert (card.folder / "song" / "song.bin").read_bytes() == SONG
    assert sorted(str(path.relative_to(card.folder)) for path in card.folder.rglob("*") if path.is_file()) == [
        "config.json",
        "model-1.safetensors",
        "song/song.bin",
    ]
    total = len(WEIGHTS) + len(SONG) + 2
    assert told[0] == (0, total) and told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told) and len(told) > 4
    card.check_files()
    assert all(COMMIT in path for _, path, _ in hub.asked if "/resolve/" in path), "all of one commit"


def test_files_that_are_there_are_not_asked_for(card: Card, hub: Hub) -> None:
    card.folder.mkdir()
    (card.folder / "model-local.safetensors").write_bytes(b"mine")
    (card.folder / "config.json").write_bytes(b"mine")
    get(card, hub)
    assert [name for name, _ in hub.downloads] == ["song.bin"]
    assert (card.folder / "config.json").read_bytes() == b"mine"
    hub.asked.clear()
    get(card, hub)
    assert not hub.asked


def test_a_connection_that_breaks_goes_on_within_the_download(card: Card, hub: Hub) -> None:
    hub.break_after = 120_000
    told = get(card, hub)
    assert (card.folder / "model-1.safetensors").read_bytes() == WEIGHTS
    spans = [span for name, span in hub.downloads if name == "model-1.safetensors"]
    assert spans[0] == "bytes=0-" and len(spans) == 2 and spans[1] == f"bytes={8 * BLOCK}-"
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_download_that_was_given_up_is_not_taken_for_whole_and_goes_on(card: Card, hub: Hub) -> None:
    hub.break_after = 0
    hub.repos["birds/wren"].files["model-0.safetensors"] = b"first"
    (card.folder).mkdir()
    part = card.folder / f".model-1.safetensors.{COMMIT[:12]}.part"
    part.write_bytes(WEIGHTS[:100_000])
    message = failure(card, hub)
    assert "goes on where it stopped" in message and "hf download birds/wren" in message
    assert card.missing() == card.sources, "there is a model-0, but that is not all"
    hub.break_after = None
    hub.asked.clear()
    told = get(card, hub)
    assert ("model-1.safetensors", "bytes=100000-") in hub.downloads
    assert told[0][0] >= 100_000
    assert (card.folder / "model-1.safetensors").read_bytes() == WEIGHTS
    assert not card.missing() and not part.exists()


def test_what_arrived_damaged_is_thrown_away(card: Card, hub: Hub) -> None:
    card.folder.mkdir()
    (card.folder / f".model-1.safetensors.{COMMIT[:12]}.part").write_bytes(b"?" * 100_000)
    assert "damaged" in failure(card, hub)
    get(card, hub)
    assert (card.folder / "model-1.safetensors").read_bytes() == WEIGHTS


def test_a_gated_repository_says_where_its_terms_are(card: Card, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos["birds/wren"].gated = True
    message = failure(card, hub)
    assert "https://huggingface.co/birds/wren" in message and "hf auth login" in message and "HF_TOKEN" in message
    monkeypatch.setenv("HF_TOKEN", "hf_ours")
    get(card, hub)
    assert not card.missing()


@pytest.mark.parametrize("gated", [True, False])
def test_a_repository_that_is_not_to_be_seen(card: Card, hub: Hub, gated: bool, tmp_path: Path) -> None:
    del hub.repos["birds/wren"]
    if not gated:
        write(tmp_path, CARD + SOURCES.replace(", gated: true", ""))
        card = read_card(tmp_path, "wren")
    message = failure(card, hub)
    assert ("accept them" in message) == gated
    assert gated or ("no repository birds/wren" in message and "`repo`" in message)


def test_a_wrong_revision_and_a_wrong_file_are_named(card: Card, hub: Hub) -> None:
    hub.repos["birds/wren"].revision = "v2"
    assert "no revision v1 of birds/wren" in failure(card, hub)
    hub.repos["birds/wren"].revision = "v1"
    del hub.repos["birds/wren"].files["config.json"]
    assert "no file config.json in birds/wren" in failure(card, hub)


def test_a_name_that_leaves_its_folder_is_not_followed(card: Card, hub: Hub) -> None:
    hub.repos["birds/wren"].files["model/../../x.safetensors"] = b"?"
    assert "leave its folder" in failure(card, hub)
    assert not hub.downloads


def test_no_network_says_how_to_bring_the_files(card: Card) -> None:
    with serving(Hub()) as gone:
        pass
    message = failure(card, gone)
    assert "cannot be reached" in message
    assert f"hf download birds/song --include song.bin --revision main --local-dir {card.folder}/song" in message


def test_a_hub_in_trouble_is_told(card: Card, hub: Hub) -> None:
    hub.broken = 502
    assert "(502)" in failure(card, hub)


def test_offline_is_respected(card: Card, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    message = failure(card, hub)
    assert "HF_HUB_OFFLINE" in message and "hf download" in message
    assert not hub.asked


def test_too_little_space_is_told_before_anything_is_fetched(card: Card, hub: Hub) -> None:
    hub.repos["birds/wren"].claims["model-1.safetensors"] = 10**16
    message = failure(card, hub)
    assert "10000000.00 GB are needed" in message and "GB are free" in message and str(card.folder) in message
    assert not hub.downloads


def test_a_disk_that_fills_is_told_and_what_came_is_kept(card: Card, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos["birds/wren"].files["model-1.safetensors"] = WEIGHTS * 200  # 40 MB

    def full(file: ours.File, *_: object) -> None:
        file.part.write_bytes((WEIGHTS * 200)[:10_000_000])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as filling:
        filling.setattr(ours, "_receive", full)
        assert "it is full, and 0.03 GB more are needed" in failure(card, hub)
    get(card, hub)
    assert ("model-1.safetensors", "bytes=10000000-") in hub.downloads
    assert (card.folder / "model-1.safetensors").stat().st_size == 40_000_000


def test_a_disk_without_room_for_a_folder_is_told_with_what_is_needed(
    card: Card, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    hub.repos["birds/wren"].files["model-1.safetensors"] = WEIGHTS * 200  # 40 MB
    monkeypatch.setattr(Path, "mkdir", full)
    assert "it is full, and 0.04 GB more are needed" in failure(card, hub)


@pytest.mark.parametrize(("offline", "broken", "answers"), [("", None, [True]), ("", 503, [False]), ("1", None, [])])
def test_whether_the_hub_is_there(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, offline: str, broken: int | None, answers: list[bool]
) -> None:
    hub.broken = broken
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    heard, came = [], threading.Event()
    ours.ask_reachable(lambda answer: (heard.append(answer), came.set()))
    assert came.wait(10 if answers else 0) == bool(answers)
    assert heard == answers
