"""The store of items: their order, what is told of them, and its bounds."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from voxrtc.chat import conversation as module
from voxrtc.chat.conversation import CHARACTERS, ITEMS, Conversation
from voxrtc.chat.events import EventError
from voxrtc.chat.items import FunctionCall, FunctionOutput, Heard, Item, Message, Spoken, Text
from voxrtc.chat.reply import Said, ToolCall, ToolResult
from voxrtc.chat.voiced import Voiced


def user(id: str, text: str = "word") -> Message:
    return Message(id, "user", [Text(text)])


def voiced(*pieces: tuple[str, float]) -> Voiced:
    """Pieces and the seconds of their sound."""
    spoken = Voiced()
    for number, (text, seconds) in enumerate(pieces):
        spoken.say(f" {text}" if number else text)
        spoken.add(seconds)
        spoken.end()
    return spoken


# --- what is told of it ---


def test_calls_have_their_results_at_once_and_others_are_left_out() -> None:
    items: list[Item] = [
        user("1", "How is Oslo?"),
        FunctionCall("2", "call_a", "weather", "{}"),
        FunctionCall("3", "call_b", "weather", "[]"),
        user("4", "And?"),
        FunctionOutput("5", "call_b", "dry"),
        FunctionOutput("6", "call_a", "wet"),
        FunctionCall("7", "call_c", "weather", "{}"),
        FunctionOutput("8", "call_d", "of nothing"),
        Message("9", "assistant", [Text("Wet.")]),
    ]
    assert Conversation(items).messages() == [
        Said("user", "How is Oslo?"),
        ToolCall("call_a", "weather", "{}"),
        ToolCall("call_b", "weather", "[]"),
        ToolResult("call_a", "wet"),
        ToolResult("call_b", "dry"),
        Said("user", "And?"),
        Said("assistant", "Wet."),
    ]


def test_calls_in_turn_stay_in_turn() -> None:
    items: list[Item] = [
        FunctionCall("1", "a", "first", "{}"),
        FunctionOutput("2", "a", "done"),
        FunctionCall("3", "b", "second", "{}"),
        FunctionOutput("4", "b", "done"),
    ]
    kinds = [type(each) for each in Conversation(items).messages()]
    assert kinds == [ToolCall, ToolResult, ToolCall, ToolResult]


def test_only_what_was_heard_is_told() -> None:
    spoken = Spoken(voiced(("One two three four.", 2.0), ("Five six.", 1.0)))
    conversation = Conversation([user("1"), Message("2", "assistant", [spoken])])

    def told() -> list[str]:
        return [said.content for said in conversation.messages() if isinstance(said, Said) and said.role == "assistant"]

    assert told() == ["One two three four. Five six."]
    spoken.played = 1.0
    assert told() == ["One two"]
    conversation.truncate("2", 0, 2.5)  # the client knows better
    assert told() == ["One two three four. Five"]
    conversation.truncate("2", 0, 0.0)
    assert told() == []


@pytest.mark.parametrize(
    ("id", "part", "end", "code", "param"),
    [
        ("0", 0, 0.0, "item_not_found", "item_id"),
        ("1", 0, 0.0, "invalid_value", "item_id"),
        ("2", 1, 0.0, "invalid_value", "content_index"),
        ("2", -1, 0.0, "invalid_value", "content_index"),
        ("3", 0, 0.0, "invalid_value", "content_index"),
        ("2", 0, 1.1, "invalid_value", "audio_end_ms"),
    ],
)
def test_what_cannot_be_truncated(id: str, part: int, end: float, code: str, param: str) -> None:
    spoken = Spoken(voiced(("One two.", 1.0)))
    items = [user("1"), Message("2", "assistant", [spoken]), Message("3", "assistant", [Text("Typed.")])]
    with pytest.raises(EventError) as error:
        Conversation(items).truncate(id, part, end)
    assert (error.value.code, error.value.param) == (code, param)


def test_what_was_typed_and_not_answered() -> None:
    conversation = Conversation()
    assert conversation.asked is None
    conversation.add(user("1", "first"))
    conversation.add(user("2", "second"))
    conversation.add(Message("3", "user", [Heard.as_told("spoken")]))
    assert conversation.asked == "second"
    conversation.add(Message("4", "assistant", [Text("There.")]))
    assert (conversation.asked, conversation.given) == (None, "There.")


async def test_transcripts_are_waited_for() -> None:
    conversation = Conversation([user("1"), Message("2", "user", [Heard()]), Message("3", "user", [Heard()])])
    waiting = asyncio.ensure_future(conversation.settled())
    conversation.understood("2", "hello")
    await asyncio.sleep(0)
    assert not waiting.done()
    conversation.delete("3")
    conversation.understood("3", "too late")
    await waiting
    assert [said.content for said in conversation.messages()] == ["word", "hello"]  # type: ignore[union-attr]


def test_an_item_follows_what_was_there_or_comes_last() -> None:
    conversation = Conversation([user("1"), user("2")])
    assert conversation.follow(user("3"), "1") == "1"
    assert conversation.follow(user("4"), "gone") == "2"
    assert conversation.last == "4"


# --- bounds and order ---


def test_the_oldest_are_forgotten() -> None:
    conversation = Conversation()
    for number in range(ITEMS + 3):
        conversation.add(user(f"{number}"))
    assert len(conversation) == ITEMS
    with pytest.raises(EventError, match="no item '2'"):
        conversation.find("2")
    conversation.add(user("long", "x" * CHARACTERS))
    assert (len(conversation), conversation.last) == (1, "long")


def test_all_that_a_client_gives_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHARACTERS", 100)
    for kind in (
        lambda id, text: user(id, text),
        lambda id, text: FunctionCall(id, text, "", ""),
        lambda id, text: FunctionCall(id, "", text, ""),
        lambda id, text: FunctionCall(id, "", "", text),
        lambda id, text: FunctionOutput(id, text, ""),
        lambda id, text: FunctionOutput(id, "", text),
    ):
        conversation = Conversation()
        for id in "abc":
            conversation.add(kind(id, "x" * 50))
        assert [item.id for item in conversation] == ["b", "c"]


class Store(RuleBasedStateMachine):
    """Beside a plain list of ids."""

    ids = st.sampled_from("abcdefgh")

    def __init__(self) -> None:
        super().__init__()
        self.most, module.ITEMS = module.ITEMS, 5
        self.conversation, self.order = Conversation(), list[str]()

    def teardown(self) -> None:
        module.ITEMS = self.most

    @rule(id=ids, after=st.none() | st.just("root") | ids)
    def add(self, id: str, after: str | None) -> None:
        if id in self.order or after not in (None, "root", *self.order):
            with pytest.raises(EventError):
                self.conversation.add(user(id), after)
            return
        place = len(self.order) if after is None else 0 if after == "root" else self.order.index(after) + 1
        assert self.conversation.add(user(id), after) == (self.order[place - 1] if place else None)
        self.order.insert(place, id)
        del self.order[:-5]

    @rule(id=ids)
    def delete(self, id: str) -> None:
        if id in self.order:
            self.conversation.delete(id)
            self.order.remove(id)
        else:
            with pytest.raises(EventError):
                self.conversation.delete(id)

    @invariant()
    def same(self) -> None:
        assert len(self.conversation) == len(self.order)
        assert [self.conversation.find(id).id for id in self.order] == self.order
        assert self.conversation.last == (self.order[-1] if self.order else "root")


TestStore = Store.TestCase

calls = st.lists(
    st.one_of(
        st.builds(lambda c: FunctionCall("", c, "f", "{}"), st.sampled_from("abc")),
        st.builds(lambda c: FunctionOutput("", c, "x"), st.sampled_from("abc")),
        st.builds(lambda text: user("", text), st.sampled_from(["", "hm"])),
    ),
    max_size=8,
)


@given(calls)
def test_a_chat_endpoint_can_read_any_conversation(items: list[Item]) -> None:
    """Every run of calls is followed by just their results, and no other result comes."""
    open: list[str] = []
    before: object = None
    for message in Conversation(items).messages():
        if isinstance(message, ToolCall):
            assert not isinstance(before, ToolResult) or not open
            open.append(message.id)
        elif isinstance(message, ToolResult):
            assert open.pop(0) == message.id
        else:
            assert not open
        before = message
    assert not open
