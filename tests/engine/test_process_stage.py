"""The detokenizer beyond a socket pair: the same sound, and what becomes of streams when its process dies.

The process is a thread here; `test_disaggregated` has a real one.
"""

from __future__ import annotations

import errno
import gc
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor

from tests.engine.test_engine import sound
from tests.engine.toy import INFO, Bench, Toy, ToyDetokenizer
from tests.waiting import eventually
from voxrtc.engine import memory, process_stage
from voxrtc.engine.detokenizer_process import Detokenizing, serve
from voxrtc.engine.device import Device
from voxrtc.engine.line import Line
from voxrtc.engine.process import load
from voxrtc.engine.process_stage import Peer, ProcessStage, StageLost
from voxrtc.engine.sound_stage import BrokenStream, Chunk
from voxrtc.messages import encode
from voxrtc.messages.detokenizer import Decode, Unfit
from voxrtc.messages.engine import Cancel, Ended, Failed
from voxrtc.messages.model import Progress
from voxrtc.settings import Settings

TEXTS = ("hello", "a longer text|in two pieces", "bye")


def dead(device: Device) -> NoReturn:
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


class Somebody:
    """A voice."""

    def __init__(self, code: int) -> None:
        self.parts = [torch.tensor([code])]


class Voiced(ToyDetokenizer):
    """A voice is a frame of its code that comes before all others. That of 7 cannot be made, nor can a state for seed 13."""

    def new_state(self, seed: int, voice: Somebody | None = None) -> list[Tensor]:
        if seed == 13:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [] if voice is None else [voice.parts[0]]

    def voice_in(self, parts: list[Tensor]) -> Somebody:
        if parts[0] == 7:
            raise ValueError("nobody sounds like that")
        return Somebody(int(parts[0]))


class Process:
    """A thread that answers as the process does, until it is killed."""

    def __init__(self) -> None:
        self.detokenizing, self.asked = Detokenizing(Voiced(), 4), list[Decode]()
        ours, self._socket = socket.socketpair()
        self.line, self._over = Line(ours), threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError, RuntimeError):
            serve(Line(self._socket), self.detokenizing, lambda: 0.5)
        self.kill()

    def kill(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._over.set()

    def poll(self) -> int | None:
        return -9 if self._over.is_set() else None

    def wait(self) -> int:
        self._over.wait()
        return -9


class House:
    """A stage, and the processes that it started."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.stage = ProcessStage(self._start)

    def _start(self) -> Peer:
        self.processes.append(process := Process())
        return Peer(process.line, process)

    def decode(self, *streams: object, frames: int = 1, final: bool = True) -> list[Tensor | Exception]:
        return self.stage.decode([Chunk(torch.full((frames, 2), 32), stream, final) for stream in streams])

    def another(self) -> None:
        """The process is killed, and another one is there."""
        count = len(self.processes)
        self.processes[-1].kill()
        eventually(lambda: len(self.processes) > count)


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    house.stage.wait()
    yield house
    house.stage.stop()


def test_it_sounds_the_same_and_a_stream_that_fails_harms_no_other(house: House) -> None:
    here, apart = Bench(), Bench(sound=house.stage)
    for bench in (here, apart):
        for text in (*TEXTS, "#poison"):
            bench.speak(text, text)
            bench.step()
        bench.run()
    for text in TEXTS:
        assert sound(apart, text) == sound(here, text) != b""
        assert isinstance(apart.replies[text][-1], Ended)
    assert isinstance(apart.replies["#poison"][-1], Failed)
    assert house.stage.memory == 0.5


def test_no_state_of_a_stream_that_is_over_stays(house: House) -> None:
    bench, states = Bench(sound=house.stage), house.processes[0].detokenizing.states
    for text in ("cancelled", "#poison", "hello"):
        bench.speak(text, text)
    while len(states) < 2:
        bench.step()
    bench.send(Cancel(stream="cancelled"), "cancelled")
    bench.run()
    eventually(lambda: not states)


def test_a_stream_whose_state_cannot_be_made_harms_no_other(house: House) -> None:
    wrong, made = house.decode(house.stage.begin(None, 13), house.stage.begin(None, 0))
    assert isinstance(wrong, BrokenStream) and "out of memory" in str(wrong)
    assert isinstance(made, Tensor) and len(house.processes) == 1


def test_numbers_that_are_none_fail_their_stream(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Voiced, "_one", lambda self, frames, state, final: torch.tensor([torch.nan] * len(frames)))
    [made] = house.decode(house.stage.begin(None, 0))
    assert isinstance(made, BrokenStream) and "no numbers" in str(made)


def test_when_its_process_dies_its_streams_fail_and_later_ones_have_the_next(house: House) -> None:
    amid, waiting = house.stage.begin(None, 0), house.stage.begin(None, 2**70)
    [made] = house.decode(amid, frames=3, final=False)
    assert isinstance(made, Tensor) and len(made) == 20
    house.another()
    lost, made = house.decode(amid, waiting)
    assert isinstance(lost, StageLost) and isinstance(made, Tensor) and len(made) == 20
    house.stage.end(amid)
    assert isinstance(house.decode(house.stage.begin(None, 0))[0], Tensor) and len(house.processes) == 2


def test_who_asks_while_it_is_replaced_has_the_next(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    first = house.stage._peer

    def poll() -> int:
        house.another()
        eventually(lambda: house.stage._peer is not first)
        return -9

    monkeypatch.setattr(first.process, "poll", poll)
    assert isinstance(house.decode(house.stage.begin(None, 0))[0], Tensor)
    assert len(house.processes) == 2, "a living one was replaced"


def test_one_that_dies_of_a_question_fails_those_who_asked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Voiced, "decode", lambda self, frames, *rest: house.processes[0].kill() or frames)
        made = house.decode(house.stage.begin(None, 0), house.stage.begin(None, 1))
    assert [type(each) for each in made] == [StageLost] * 2
    assert isinstance(house.decode(house.stage.begin(None, 0))[0], Tensor)


def test_where_no_other_can_be_started_streams_fail_until_one_can(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none() -> NoReturn:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(house.stage, "_start", none)
        house.processes[0].kill()
        eventually(lambda: "could not be started (Cannot allocate" in caplog.text)
        [made] = house.decode(house.stage.begin(None, 0))
        assert isinstance(made, StageLost)
    assert isinstance(house.decode(house.stage.begin(None, 0))[0], Tensor)


def test_one_whose_device_is_dead_ends_and_one_that_only_failed_does_not(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(house.decode(house.stage.begin(None, 13))[0], BrokenStream) and len(house.processes) == 1
    with monkeypatch.context() as patch:
        patch.setattr(Device, "check", dead)
        [made] = house.decode(house.stage.begin(None, 13))
        assert isinstance(made, StageLost)
    assert isinstance(house.decode(house.stage.begin(None, 0))[0], Tensor) and len(house.processes) == 2


def test_one_that_hangs_is_killed_and_those_who_asked_are_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    for name in ("HANGS", "A_STREAM", "A_FRAME"):
        monkeypatch.setattr(process_stage, name, 0.02)
    monkeypatch.setattr(Voiced, "decode", lambda self, frames, *rest: over.wait() and frames)
    made = house.decode(house.stage.begin(None, 0), house.stage.begin(None, 1))
    assert [str(each) for each in made] == ["The detokenizer's process does not answer."] * 2
    monkeypatch.undo()
    assert isinstance(house.decode(house.stage.begin(None, 0))[0], Tensor) and len(house.processes) == 2
    over.set()


def test_one_that_takes_no_word_is_killed_as_well(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    amid, over = house.stage.begin(None, 0), threading.Event()
    house.decode(amid, final=False)
    monkeypatch.setattr(process_stage, "HANGS", 0.02)
    monkeypatch.setattr(Detokenizing, "end", lambda self, stream: over.wait())
    while house.processes[0].poll() is None:
        house.stage.end(amid)
    monkeypatch.undo()
    assert isinstance(house.decode(house.stage.begin(None, 0))[0], Tensor)
    over.set()


def test_how_long_is_waited_goes_by_how_much_is_asked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def within(self: Line, seconds: float) -> nullcontext[None]:
        waited.append(seconds)
        return nullcontext()

    monkeypatch.setattr(Line, "within", within)
    house.decode(house.stage.begin(None, 0), frames=25)
    house.decode(*(house.stage.begin(None, 0) for _ in range(4)), frames=500)
    assert 15 < waited[0] < 30 and waited[1] > 400, "a flow on one core takes 46 s for 500 frames of one stream"


def test_one_that_cannot_be_loaded_says_why() -> None:
    process = Process()
    process.kill()
    ours, theirs = map(Line, socket.socketpair())
    theirs.send(encode(Unfit(message="Two files are missing.")))
    with pytest.raises(StageLost, match="Two files are missing"):
        ProcessStage(lambda: Peer(ours, process)).wait()


class Cramped(Toy):
    """There is no room for its tables."""

    def new_states(self, slots: int) -> NoReturn:
        raise MemoryError("no room")


class Deaf(Toy):
    """It breaks while the engine warms up."""

    hears = True

    @property
    def hearing_rate(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("no ear")


@pytest.mark.parametrize(("model", "why"), [(Cramped, "no room"), (Deaf, "no ear")])
def test_it_ends_with_an_engine_that_cannot_serve(model: type[Toy], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    processes, told = list[Process](), list[Progress]()

    def start(environment: Mapping[str, str]) -> Peer:
        processes.append(process := Process())
        return Peer(process.line, process)

    monkeypatch.setattr(process_stage, "start", start)
    server: Any = SimpleNamespace(tell=told.append, memory=None)
    load(Settings(disaggregated=True), server, False, lambda settings, at: (INFO, model()))
    assert (told[-1].state, told[-1].message) == ("failed", why)
    [process] = processes
    assert process.poll() is not None


def test_the_cache_gets_what_it_leaves_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both may be on the same GPU."""
    peers, ready = list[Peer](), list[bool]()

    def start(environment: Mapping[str, str]) -> Peer:
        process = Process()
        peers.append(peer := Peer(process.line, process))
        return peer

    def pages_for(*_: object) -> NoReturn:
        ready.append(peers[0].ready)
        raise MemoryError("no room")

    monkeypatch.setattr(process_stage, "start", start)
    monkeypatch.setattr(memory, "pages_for", pages_for)
    server: Any = SimpleNamespace(tell=lambda progress: None, memory=None)
    load(Settings(disaggregated=True), server, False, lambda settings, at: (INFO, Toy()))
    assert ready == [True]


def test_a_voice_goes_over_once_and_stays_as_long_as_somebody_has_it(house: House) -> None:
    ann, bob, nobody = Somebody(16), Somebody(48), Somebody(7)
    for _ in range(2):
        made = house.decode(*(house.stage.begin(voice, 0) for voice in (ann, bob, None)))
        assert [float(each[0]) for each in made] == [0.25, 0.75, 0.5]
    voices = house.processes[0].detokenizing.voices
    first = dict(voices)
    wrong, made = house.decode(house.stage.begin(nobody, 0), house.stage.begin(ann, 0))  # type: ignore[assignment]
    assert isinstance(wrong, BrokenStream) and "nobody sounds like that" in str(wrong) and len(made) == 40
    assert {number: voices[number] for number in first} == first and len(first) == 2, "it was made again"
    del bob, nobody
    gc.collect()
    house.decode(house.stage.begin(None, 0))
    assert list(voices) == [id(ann)]
    house.another()
    assert float(house.decode(house.stage.begin(ann, 0))[0][0]) == 0.25, "the next process was not told of her"
