"""The conversation as it was heard: items in their order, and what a replier is told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from voxrtc.chat.events import EventError
from voxrtc.chat.items import FunctionCall, FunctionOutput, Item, Message, Spoken, heard
from voxrtc.chat.reply import Said, ToolCall, ToolResult

ITEMS = 256  # that are remembered
CHARACTERS = 1 << 18  # of theirs, together
SLACK = 0.02  # seconds that a client's account of the sound may be longer than ours


class Conversation:
    """Its changes are told to the client by whoever makes them. Beyond `ITEMS` or `CHARACTERS` the oldest are forgotten."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Put an item after another (None: at the end, "root": first). Returns the id before it. Raises `EventError`."""
        if any(item.id == each.id for each in self._items):
            raise EventError("item_exists", f"There is an item {item.id[:64]!r} already; give it another id.", "item.id")
        place = len(self._items) if after is None else 0 if after == "root" else self._place(after, "previous_item_id") + 1
        previous = self._items[place - 1].id if place else None
        self._items.insert(place, item)
        self._forget()
        return previous

    def follow(self, item: Item, after: str) -> str | None:
        """As `add`, but at the end when what was to be before it is gone."""
        return self.add(item, after if after == "root" or any(after == each.id for each in self._items) else None)

    @property
    def last(self) -> str:
        """The last item's id; "root" when there is none."""
        return self._items[-1].id if self._items else "root"

    def find(self, id: str, param: str = "item_id") -> Item:
        """Raises `EventError`."""
        return self._items[self._place(id, param)]

    def delete(self, id: str) -> None:
        """Raises `EventError`."""
        self._drop(self._place(id, "item_id"))

    def called(self, call_id: str) -> bool:
        """A function was called under this id."""
        return any(isinstance(item, FunctionCall) and item.call_id == call_id for item in self._items)

    def truncate(self, id: str, part: int, end: float) -> None:
        """The client has played only `end` seconds of an item's sound: the words behind were not heard. Raises `EventError`."""
        item = self.find(id)
        if not isinstance(item, Message) or item.role != "assistant":
            raise EventError("invalid_value", "Only messages of the assistant can be truncated.", "item_id")
        spoken = item.content[part] if 0 <= part < len(item.content) else None
        if not isinstance(spoken, Spoken):
            raise EventError("invalid_value", f"Part {part} of this item is no sound; give another.", "content_index")
        made = spoken.voiced.seconds
        if end > made + SLACK:
            message = f"Audio content of {1000 * made:.0f}ms is already shorter than {1000 * end:.0f}ms."
            raise EventError("invalid_value", message, "audio_end_ms")
        spoken.truncated = end

    def understood(self, id: str, transcript: str | None) -> None:
        """The words of a spoken item; None: there will be none. It may have been deleted meanwhile."""
        for item in self._items:
            if item.id == id:
                for part in heard(item):
                    part.tell(transcript)

    async def settled(self, needless: Callable[[str], bool] = lambda id: False) -> None:
        """Wait until no transcript is to come, but of items of which it is needless."""
        for part in [part for item in self._items if not needless(item.id) for part in heard(item)]:
            await part.known.wait()

    @property
    def asked(self) -> str | None:
        """The last thing that the user typed, if the assistant has said nothing since."""
        for item in reversed(self._items):
            if isinstance(item, Message) and item.role == "assistant":
                break
            if isinstance(item, Message) and item.role == "user" and not heard(item):
                return item.words
        return None

    @property
    def given(self) -> str | None:
        """The assistant's words, if they are the last item."""
        last = self._items[-1] if self._items else None
        return last.words if isinstance(last, Message) and last.role == "assistant" else None

    @property
    def silent(self) -> bool:
        """The last item is one of the user's, without a word."""
        last = self._items[-1] if self._items else None
        return isinstance(last, Message) and last.role == "user" and not last.words

    def messages(self) -> list[Said | ToolCall | ToolResult]:
        """What a replier is told: the words that were heard. Calls without a result are left out, and results follow their
        calls at once, whatever was said meanwhile, since chat endpoints insist on both."""
        outputs = {item.call_id: item.output for item in self._items if isinstance(item, FunctionOutput)}
        told: list[Said | ToolCall | ToolResult] = []
        results: list[ToolResult] = []
        for item in self._items:
            if isinstance(item, FunctionCall):
                if item.call_id in outputs:
                    told.append(ToolCall(item.call_id, item.name, item.arguments))
                    results.append(ToolResult(item.call_id, outputs[item.call_id]))
                continue
            told.extend(results)
            results = []
            if isinstance(item, Message) and item.words:
                told.append(Said(item.role, item.words))
        return [*told, *results]

    def _place(self, id: str, param: str) -> int:
        for place, item in enumerate(self._items):
            if item.id == id:
                return place
        raise EventError("item_not_found", f"There is no item {id[:64]!r} in the conversation.", param)

    def _drop(self, place: int) -> None:
        for part in heard(self._items.pop(place)):
            part.known.set()  # nobody waits for it any more

    def _forget(self) -> None:
        """The oldest, but never the last."""
        excess = sum(_length(item) for item in self._items) - CHARACTERS
        while len(self._items) > 1 and (excess > 0 or len(self._items) > ITEMS):
            excess -= _length(self._items[0])
            self._drop(0)


def _length(item: Item) -> int:
    match item:
        case Message():
            return len(item.words)
        case FunctionCall():
            return len(item.call_id) + len(item.name) + len(item.arguments)
        case FunctionOutput():
            return len(item.call_id) + len(item.output)
