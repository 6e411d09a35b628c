"""Files of models from the Hugging Face hub, into the folders that cards name. Only an engine process downloads.

Every file arrives under another name and gets its own when it is whole; what was interrupted goes on where it stopped,
also in another process. `huggingface_hub` speaks with the hub: it knows tokens, proxies, HF_ENDPOINT and HF_HUB_OFFLINE. Its
own `hf_hub_download` begins a file anew in every process, hence the few lines here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from voxrtc.cards import Files, Source

HUB = "https://huggingface.co"
ANSWER_WITHIN = 2.0  # seconds that the hub may take to say that it is there
SILENCE = 10.0  # seconds without a byte, after which a connection counts as broken
TRIES, PAUSE = 5, 1.0  # connections in a row that may bring nothing, and seconds between them

OnBytes = Callable[[int, int], None]  # bytes that are there, of how many


class HubError(Exception):
    """Files that could not be fetched; says why and what to do."""


@dataclass(frozen=True)
class File:
    """A file of a repository at one commit, and where it belongs."""

    repo: str
    commit: str
    name: str
    size: int
    sha256: str | None  # of big files
    path: Path

    @property
    def part(self) -> Path:
        """What of it has arrived. Another commit's is another file."""
        return self.path.with_name(f".{self.path.name}.{self.commit[:12]}.part")

    @property
    def arrived(self) -> int:
        """Bytes of it that are there. A file that has its name is whole, wherever it came from."""
        if self.path.exists():
            return self.size
        return self.part.stat().st_size if self.part.exists() else 0


def fetch(card: Files, on_bytes: OnBytes, endpoint: str | None = None) -> None:
    """Download what the card's sources lack. Raises `HubError`."""
    lacking = card.missing()
    with _errors_explained(card, lacking):
        found = (file for source in lacking for file in _files(card, source, endpoint))
        files = list({file.path: file for file in found}.values())  # patterns may overlap
        _check_space(card, files)
        total, done = sum(file.size for file in files), sum(file.arrived for file in files)
        with _full_disk_explained(card, files):
            card.folder.mkdir(parents=True, exist_ok=True)
            card.unfinished.touch()
            on_bytes(done, total)
            for file in files:
                if not file.path.exists():
                    done -= file.arrived
                    _download(file, partial(_add, on_bytes, done, total), endpoint)
                    done += file.size
        card.unfinished.unlink()


def _add(on_bytes: OnBytes, before: int, total: int, arrived: int) -> None:
    on_bytes(before + arrived, total)


def _files(card: Files, source: Source, endpoint: str | None) -> Iterator[File]:
    """The repository's files that the source names. Raises `HubError` when a name is of none."""
    from huggingface_hub import HfApi

    repo = HfApi(endpoint).model_info(source.repo, revision=source.revision, files_metadata=True, timeout=10)
    assert repo.sha and repo.siblings is not None
    for pattern in source.files:
        found = [sibling for sibling in repo.siblings if fnmatch(sibling.rfilename, pattern)]
        if not found:
            where = f"{source.repo} at revision {source.revision}"
            raise HubError(f"There is no file {pattern} in {where}. Correct `files` in the card of “{card.name}”.")
        for sibling in found:
            name, sha256 = sibling.rfilename, sibling.lfs.sha256 if sibling.lfs else None
            if name.startswith("/") or ".." in name.split("/"):
                raise HubError(f"{source.repo} has a file named {name}, which would leave its folder. Nothing was fetched.")
            yield File(source.repo, repo.sha, name, sibling.size or 0, sha256, card.place(source) / name)


def _check_space(card: Files, files: list[File]) -> None:
    place = next(folder for folder in (card.folder, *card.folder.parents) if folder.exists())
    needed, free = _lacking(files), shutil.disk_usage(place).free
    if needed > free:
        raise HubError(_no_space(card, f"{needed / 1e9:.2f} GB are needed, {free / 1e9:.2f} GB are free"))


def _lacking(files: list[File]) -> int:
    """Bytes."""
    return sum(file.size - file.arrived for file in files)


@contextmanager
def _full_disk_explained(card: Files, files: list[File]) -> Iterator[None]:
    """Others may fill it meanwhile. What has come is kept, and goes on."""
    try:
        yield
    except OSError as wrong:
        if wrong.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise HubError(_no_space(card, f"it is full, and {_lacking(files) / 1e9:.2f} GB more are needed")) from wrong


def _no_space(card: Files, figures: str) -> str:
    return (
        f"There is too little space for “{card.name}” on the disk of {card.folder}: {figures}. "
        "Free some and load it again, or set another folder of models (--models)."
    )


def _download(file: File, on_arrived: Callable[[int], None], endpoint: str | None) -> None:
    """All of a file, over as many connections as it takes, as long as each brings something."""
    from huggingface_hub import errors

    file.path.parent.mkdir(parents=True, exist_ok=True)
    if file.arrived > file.size:
        file.part.unlink()
    tries = TRIES
    while tries:
        before = file.arrived
        try:
            _receive(file, on_arrived, endpoint)
            break
        except errors.HfHubHTTPError:  # an answer, if a bad one
            raise
        except errors.HTTPError:
            tries = TRIES if file.arrived > before else tries - 1
            if not tries:
                raise
            time.sleep(PAUSE)
    if not _whole(file):
        file.part.unlink()
        raise HubError(f"{file.name} of {file.repo} has arrived damaged and was deleted. Load the model again.")
    file.part.rename(file.path)


def _receive(file: File, on_arrived: Callable[[int], None], endpoint: str | None) -> None:
    """What is lacking of a file, over one connection."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    if file.arrived == file.size:
        return file.part.touch()
    url = hf_hub_url(file.repo, file.name, revision=file.commit, endpoint=endpoint)
    # Bytes are counted as they are stored. On the way to another host the client leaves the token behind.
    headers = {**build_hf_headers(), "Accept-Encoding": "identity", "Range": f"bytes={file.arrived}-"}
    with (
        get_session().stream("GET", url, headers=headers, timeout=SILENCE, follow_redirects=True) as response,
        file.part.open("ab") as part,
    ):
        hf_raise_for_status(response)
        if response.status_code != 206:  # it sends everything
            part.truncate(0)
        for block in response.iter_raw():
            part.write(block)
            part.flush()  # what has come outlives this process
            on_arrived(os.fstat(part.fileno()).st_size)


def _whole(file: File) -> bool:
    with file.part.open("rb") as part:
        if os.fstat(part.fileno()).st_size != file.size:
            return False
        return file.sha256 is None or hashlib.file_digest(part, "sha256").hexdigest() == file.sha256


@contextmanager
def _errors_explained(card: Files, sources: list[Source]) -> Iterator[None]:
    """Everything that the hub, the network and the disk can do, as `HubError`."""
    from huggingface_hub import errors

    by_hand = card.way_to_get(sources)
    try:
        yield
    except errors.GatedRepoError as wrong:
        raise HubError(_gated(sources)) from wrong
    except errors.RepositoryNotFoundError as wrong:
        if any(source.gated for source in sources):
            raise HubError(_gated(sources)) from wrong
        repos = ", ".join(source.repo for source in sources)
        message = f"The hub has no repository {repos}, or hides it from you. Correct `repo` in the card of “{card.name}”"
        raise HubError(f"{message}; if it is private, run `hf auth login`, or set HF_TOKEN.") from wrong
    except errors.RevisionNotFoundError as wrong:
        revisions = ", ".join(f"{source.revision} of {source.repo}" for source in sources)
        raise HubError(f"The hub has no revision {revisions}. Correct `revision` in the card of “{card.name}”.") from wrong
    except errors.OfflineModeIsEnabled as wrong:
        message = "HF_HUB_OFFLINE is set, so nothing is downloaded. Unset it, or bring the files yourself."
        raise HubError(f"{message} {by_hand}") from wrong
    except errors.HfHubHTTPError as wrong:
        status = wrong.response.status_code
        raise HubError(
            f"The hub answered with an error ({status}). Load the model again in a while; what came is kept."
        ) from wrong
    except errors.HTTPError as wrong:  # its base: connections that fail or break
        message = (
            "The hub cannot be reached, or the connection broke. Load the model again when the network is back: it goes on"
        )
        raise HubError(
            f"{message} where it stopped. Without a network, bring the files from another machine. {by_hand}"
        ) from wrong
    except OSError as wrong:
        raise HubError(f"The files could not be stored in {card.folder}: {wrong}. Load the model again.") from wrong


def _gated(sources: list[Source]) -> str:
    gated = next((source for source in sources if source.gated), sources[0])
    return (
        f"The terms of {gated.repo} have to be accepted first: open {gated.link}, accept them, then run `hf auth login` "
        "(or set HF_TOKEN) on the machine of this server, and load the model again."
    )


def ask_reachable(on_answer: Callable[[bool], None]) -> None:
    """Find out in the background whether the hub answers; `on_answer` is called on a thread, unless nobody is to be asked."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return
    threading.Thread(target=lambda: on_answer(_answers(os.environ.get("HF_ENDPOINT") or HUB)), daemon=True).start()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=ANSWER_WITHIN):
            return True
    except urllib.error.HTTPError as answer:
        return answer.code < 500
    except (OSError, ValueError):
        return False
