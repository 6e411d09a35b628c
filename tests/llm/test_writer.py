"""Several completions at a time, by a model that is a function of what it has read, and by the real one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tokenizers import decoders

from tests.llm.test_prompt import tokenizer
from voxrtc.llm.model import SLOTS, ChatModel, Part
from voxrtc.llm.prompt import CONVERSATION, END, START, TooLong
from voxrtc.llm.writer import AHEAD, AT_ONCE, LONGEST, ROWS, WAITING, Full, Writer
from voxrtc.messages.completion import ChatMessage

SYSTEM = ChatMessage("system", "Be brief.")


class Parrot:
    """Says what is told it last. It keeps what it has read by slot, so that wrong positions and slots show."""

    def __init__(self, pages: int = 10**6) -> None:
        self.tokenizer = tokenizer(START, END)
        self.tokenizer.decoder = decoders.ByteLevel()
        self.read: dict[int, list[int]] = {}
        self.room: dict[int, int] = {}
        self.pages = pages
        self.steps: list[list[Part]] = []
        self.broken = False

    def make_room(self, slot: int, positions: int) -> bool:
        others = sum(room for other, room in self.room.items() if other != slot)
        if others + positions > self.pages:
            return False
        self.room[slot] = max(positions, self.room.get(slot, 0))
        return True

    def free(self, slot: int) -> None:
        self.read.pop(slot, None)
        self.room.pop(slot, None)

    def begin(self, slot: int, seed: int) -> None:
        pass

    def copy(self, donor: int, slot: int, positions: int) -> None:
        self.read[slot] = self.read[donor][:positions]

    def step(self, parts: Sequence[Part]) -> list[int | None]:
        if self.broken:
            raise RuntimeError("an accident")
        self.steps.append(list(parts))
        for part in parts:
            known = self.read.get(part.slot, [])
            assert part.start <= len(known), "something was left out"
            self.read[part.slot] = known[: part.start] + list(part.ids)
            assert len(self.read[part.slot]) <= self.room[part.slot]
        return [self._next(self.read[part.slot]) if part.samples else None for part in parts]

    def _next(self, ids: list[int]) -> int:
        text = self.tokenizer.decode(ids, skip_special_tokens=False)
        *_, asked, answered = text.split(START)
        wanted, said = asked.removeprefix("user\n").partition(END)[0], len(answered.removeprefix("assistant\n"))
        return self.tokenizer.encode(wanted).ids[said] if said < len(wanted) else self.tokenizer.token_to_id(END)


def key(name: str) -> tuple[bytes, str]:
    return b"client", name


def user(text: str) -> list[ChatMessage]:
    return [SYSTEM, ChatMessage("user", text)]


def run(writer: Writer) -> dict[str, str]:
    """Everything that is written, by completion."""
    texts: dict[str, str] = {}
    while writer.busy:
        for news in writer.step():
            texts[news.key[1]] = texts.get(news.key[1], "") + news.text
    return texts


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


def test_many_are_written_at_once_each_its_own(parrot: Parrot) -> None:
    writer = Writer(parrot, SLOTS)
    words = {f"{number}": f"word {number}" + number * "!" for number in range(3 * AT_ONCE)}
    for name, text in words.items():
        writer.begin(key(name), user(text))
    assert run(writer) == words
    assert max(map(len, parrot.steps)) == AT_ONCE


def test_only_the_new_turn_is_computed(parrot: Parrot) -> None:
    writer = Writer(parrot, SLOTS)
    writer.begin(key("1"), user("hello"))
    run(writer)
    parrot.steps.clear()
    writer.begin(key("2"), [*user("hello"), ChatMessage("assistant", "hello"), ChatMessage("user", "again")])
    assert run(writer) == {"2": "again"}
    new = "<\n>user\nagain<\n>assistant\n"  # a letter for a mark; the first ended the answer and led nowhere then
    assert len(parrot.steps[0][0].ids) == len(new)


def test_a_step_takes_few_tokens_of_prompts(parrot: Parrot) -> None:
    """So those who write already are not stalled by those who come."""
    writer = Writer(parrot, SLOTS)
    writer.begin(key("0"), user("x" * 30))
    while not any(news.text for news in writer.step()):
        pass
    for number in range(4):
        writer.begin(key(f"{number + 1}"), user("y" * 300))
    parrot.steps.clear()
    texts = run(writer)
    assert texts["4"] == "y" * LONGEST
    assert max(sum(len(part.ids) for part in parts if len(part.ids) > 1) for parts in parrot.steps) <= ROWS
    first = parrot.steps[0][0]
    assert all(parts[0].slot == first.slot and len(parts[0].ids) == 1 for parts in parrot.steps[:10]), "it writes on"


def test_who_has_a_clause_is_not_urgent(parrot: Parrot) -> None:
    writer = Writer(parrot, SLOTS)
    assert not writer.urgent
    writer.begin(key("1"), user("x" * 60))
    urgent, length = [], 0
    while writer.busy:
        urgent.append((writer.urgent, length))
        length += sum(len(news.text) for news in writer.step())
    assert all(now == (length < AHEAD) for now, length in urgent)
    assert {now for now, _ in urgent} == {True, False}


def test_two_sentences_are_enough(parrot: Parrot) -> None:
    writer = Writer(parrot, SLOTS)
    writer.begin(key("1"), user("One. Two, with 3.5! Three is not wanted."))
    assert run(writer) == {"1": "One. Two, with 3.5!"}


def test_max_tokens_cut_it(parrot: Parrot) -> None:
    writer = Writer(parrot, SLOTS)
    writer.begin(key("1"), user("abcdef"), max_tokens=3)
    writer.begin(key("2"), user("abc"), max_tokens=4)
    ends = {}
    while writer.busy:
        ends |= {news.key[1]: news.cut for news in writer.step() if news.last}
    assert ends == {"1": True, "2": False}


def test_the_abandoned_leave_at_once(parrot: Parrot) -> None:
    writer = Writer(parrot, SLOTS)
    for name in "123":
        writer.begin(key(name), user(f"number {name}"))
    writer.step()
    writer.abandon(key("2"))
    writer.abandon(key("unknown"))
    writer.begin(key("4"), user("four"))
    writer.abandon(key("4"))
    assert run(writer).keys() == {"1", "3"}


def test_too_many_are_refused(parrot: Parrot) -> None:
    writer = Writer(parrot, SLOTS)
    for number in range(WAITING):
        writer.begin(key(f"{number}"), user("hi"))
    with pytest.raises(Full):
        writer.begin(key("one more"), user("hi"))
    with pytest.raises(TooLong):
        Writer(parrot, SLOTS).begin(key("long"), user("x" * CONVERSATION))
    assert len(run(writer)) == WAITING


def test_pages_are_taken_from_those_who_are_done() -> None:
    """And who finds none waits for those who are not."""
    parrot = Parrot(pages=2_500)
    writer = Writer(parrot, SLOTS)
    for number in range(12):
        writer.begin(key(f"{number}"), user(f"word {number}"))
    assert run(writer) == {f"{number}": f"word {number}" for number in range(12)}
    assert 1 < max(map(len, parrot.steps)) < AT_ONCE


def test_after_a_failure_nothing_of_it_is_kept(parrot: Parrot) -> None:
    writer = Writer(parrot, SLOTS)
    writer.begin(key("1"), user("hello"))
    writer.step()
    parrot.broken = True
    with pytest.raises(RuntimeError):
        writer.step()
    assert writer.forget() == [key("1")] and not writer.busy
    parrot.broken = False
    writer.begin(key("2"), user("hello"))
    assert run(writer) == {"2": "hello"}


def test_one_who_cannot_enter_does_not_stand_in_the_door(parrot: Parrot, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(parrot, SLOTS)
    writer.begin(key("1"), user("hello"))
    writer.begin(key("2"), user("hello"))
    with monkeypatch.context() as broken, pytest.raises(ZeroDivisionError):
        broken.setattr(parrot, "begin", lambda slot, seed: 1 / 0)
        writer.step()
    assert writer.forget() == [key("1")]
    assert len(writer._slots.idle()) == SLOTS
    assert run(writer) == {"2": "hello"}


def test_the_real_model_answers_and_remembers(chat_model: ChatModel) -> None:
    """The same alone and in company, from what is kept and from the beginning."""
    alone = Writer(chat_model, SLOTS)
    alone.begin(key("1"), user("What is the capital of France?"))
    answer = run(alone)["1"]
    assert "Paris" in answer
    follow = [*user("What is the capital of France?"), ChatMessage("assistant", answer), ChatMessage("user", "Thank you.")]
    kept, anew = alone, Writer(chat_model, SLOTS)
    kept._seed = anew._seed = 7
    for writer in (kept, anew):
        writer.begin(key("2"), follow)
        if writer is anew:
            writer.begin(key("other"), user("Tell me about the sea."))
    first, second = run(kept)["2"], run(anew)["2"]
    assert first == second and first
