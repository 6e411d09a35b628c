"""One Realtime conversation over a data channel: OpenAI's events in and out, sound on the peer's track.

A response answers the conversation's last user message, where there is somebody to answer (`Replier`). Otherwise it speaks
that message itself, if it was typed; what the person says is then transcribed and no more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

from voxrtc.asr.client import Transcriber
from voxrtc.chat import events
from voxrtc.chat.choice import Choice, choose
from voxrtc.chat.events import EventError
from voxrtc.chat.input_buffer import InputBuffer
from voxrtc.chat.reply import Replier, Said, in_clauses
from voxrtc.chat.response import Response
from voxrtc.chat.turns import TurnSettings
from voxrtc.engine.fleet import Fleet
from voxrtc.messages import Generate
from voxrtc.rtc.playout import Clock
from voxrtc.rtc.sound import Samples
from voxrtc.rtc.track import PlayoutTrack

ITEMS = 256  # of the conversation that are remembered

log = logging.getLogger(__name__)


class Line(Protocol):
    """What a conversation needs of its peer."""

    track: PlayoutTrack

    def send(self, text: str) -> None: ...


class Session:
    """The conversation with one peer, as its `PeerListener`, and as its microphone's `input_buffer.Conversation`. At most
    one response is generated at a time.

    Handlers return at once, so that nothing stands before a Stop.
    """

    line: Line  # set by its maker, since a peer is made with its listener

    def __init__(
        self,
        engines: Fleet,
        transcriber: Transcriber,
        detect: Callable[[Samples], float],  # as `voice.VoiceDetector`
        choice: Choice,
        turns: TurnSettings | None,
        replier: Replier | None,
        instructions: str,  # for the replier
        over: Callable[[], None],
    ) -> None:
        self._engines, self._choice, self._over = engines, choice, over
        self._replier, self._instructions = replier, instructions
        self._input = InputBuffer(self, transcriber, detect, turns)
        self._id = events.new_id("sess")
        self._items: list[str] = []  # ids, oldest first
        self._talk: list[Said] = []  # the conversation as it was heard, oldest first
        self._unanswered = False  # there is a user message that nothing has answered
        self._active: Response | None = None  # being generated
        self._broke_in = False  # since the last response: the next one is a reply to that
        self._heard: dict[str, Response] = {}  # being generated or still to be played out, by stream

    # --- the peer's side (PeerListener) ---

    def opened(self) -> None:
        self.tell("session.created", session=self._settings())

    def received(self, text: str | bytes) -> None:
        cause: str | None = None
        try:
            event = events.parse(text)
            cause = event.event_id
            self._handle(event)
        except EventError as error:
            self.line.send(events.error(error.code, str(error), error.param, error.event_id or cause))
        except Exception:
            log.exception("an event could not be handled")
            message = "This event failed inside the server; its log says why."
            self.line.send(events.error("internal_error", message, None, cause, "server_error"))

    def heard(self, block: Samples) -> None:
        self._input.heard(block)

    def closed(self) -> None:
        if self._active:
            self._active.cancel()
        self._input.drop()
        self._over()

    def started(self, clock: Clock) -> None:
        self.tell("output_audio_buffer.started", response_id=clock.stream)
        if (response := self._heard.get(clock.stream)) and response.timing:
            self.tell("voxrtc.timing", response_id=clock.stream, **response.stages(time.monotonic()))

    def progress(self, clock: Clock) -> None:
        if response := self._heard.get(clock.stream):
            response.passed(clock)
        if self._active and self._active.id == clock.stream:  # afterwards the engine no longer needs to know
            self._engines.report(self._active.playout(clock))

    def stopped(self, clock: Clock) -> None:
        self.tell("output_audio_buffer.stopped", response_id=clock.stream)
        self._played(clock)

    # --- the microphone's side (input_buffer.Conversation) ---

    def tell(self, type: str, **fields: Any) -> None:
        self.line.send(events.event(type, **fields))

    def insert(self, id: str, after: str | None) -> str | None:
        """Put an item after another (None: at the end, "root": first); returns the id before it, if any."""
        if after not in (None, "root", *self._items):
            raise EventError("item_not_found", f"There is no item {after!r} to insert after.", "previous_item_id")
        place = len(self._items) if after is None else 0 if after == "root" else self._items.index(after) + 1
        previous = self._items[place - 1] if place else None
        self._items.insert(place, id)
        del self._items[:-ITEMS]
        return previous

    def interrupt(self) -> None:
        if self._active:
            self._break_off(self._active, "turn_detected")
        self._clear()

    def said(self, text: str) -> None:
        if self._replier is None:
            return
        self._remember(Said("user", text))
        if self._input.settings and self._input.settings.respond and not self._active:
            try:
                self._respond(events.ResponseSettings())
            except EventError as error:
                self.line.send(events.error(error.code, str(error), error.param))

    # --- client events ---

    def _handle(self, event: events.AnyClientEvent) -> None:
        match event:
            case events.SessionUpdate(session=session):
                self._choice = choose(self._engines.known, session.model, session.voice, self._choice)
                self._instructions = session.instructions or self._instructions
                if (turns := session.turns(self._input.settings)) != self._input.settings:
                    self._input.configure(turns)
                self.tell("session.updated", session=self._settings())
            case events.ItemCreate():
                self._add_item(event)
            case events.ResponseCreate():
                self._respond(event.response or events.ResponseSettings())
            case events.ResponseCancel():
                self._cancel(event.response_id)
            case events.OutputClear():
                self._clear()
            case events.InputCommit():
                self._input.commit()
            case events.InputClear():
                self._input.clear()
            case events.Ping():
                self.tell("voxrtc.pong", id=event.id, t=event.t)
            case events.Pong():
                pass  # that it came in was its message

    def _add_item(self, event: events.ItemCreate) -> None:
        item, text = event.item, _text(event.item, "item")
        id = item.id or events.new_id("item")
        if id in self._items:
            raise EventError("item_exists", f"There is an item {id!r} already.", "item.id")
        previous = self.insert(id, event.previous_item_id)
        self._remember(_said(item, text))
        content = [{"type": content.type, "text": content.text} for content in item.content]
        body = events.message_item(id, item.role or "user", "completed", content)
        self.tell("conversation.item.added", previous_item_id=previous, item=body)
        self.tell("conversation.item.done", previous_item_id=previous, item=body)

    def _respond(self, settings: events.ResponseSettings) -> None:
        if self._active:
            message = f"Response {self._active.id} is in progress; cancel it or wait until it is done."
            raise EventError("conversation_already_has_active_response", message)
        if settings.output_modalities not in (None, ["audio"]):
            raise EventError("invalid_value", "Responses here are sound: ['audio'].", "response.output_modalities")
        choice = choose(self._engines.known, None, settings.voice, self._choice)
        request = Generate(
            stream=events.new_id("resp"),
            text="",
            accepted=time.monotonic(),
            model=choice.model,
            voice=choice.voice,
            priority=self._broke_in or self.line.track.clock is not None,
        )
        pieces = self._pieces(settings)
        self._broke_in = False
        item_id = events.new_id("item")
        previous = self.insert(item_id, None) if settings.conversation != "none" else None
        response = Response(self.line.send, request, pieces, item_id, previous, settings.metadata)
        self._active = self._heard[response.id] = response
        response.start(self._engines, self.line.track, self._generated)

    def _pieces(self, settings: events.ResponseSettings) -> AsyncGenerator[str, None]:
        """What to speak: given words, or a reply. From the response's own input, else from the conversation."""
        if settings.input is not None:
            talk = [_said(item, _text(item, "response.input")) for item in settings.input]
            if talk and talk[-1].role == "assistant":
                return _once(talk[-1].content)
        else:
            talk, self._unanswered = (self._talk if self._unanswered else []), False
        asked = [said.content for said in talk if said.role == "user"]
        if not asked:
            raise EventError("nothing_to_say", "There is no user message to speak: create an item with input_text.")
        if self._replier is None:
            return _once(asked[-1])
        return in_clauses(self._replier.reply([Said("system", self._instructions), *talk]))

    def _remember(self, said: Said) -> None:
        self._talk.append(said)
        del self._talk[:-ITEMS]
        self._unanswered = self._unanswered or said.role == "user"

    def _cancel(self, response_id: str | None) -> None:
        if self._active is None or response_id not in (None, self._active.id):
            raise EventError("response_cancel_not_active", "There is no such response in progress.", "response_id")
        self._break_off(self._active)

    def _clear(self) -> None:
        if clock := self.line.track.flush():
            self._broke_in = True
            if self._active and self._active.id == clock.stream:
                self._break_off(self._active)  # the rest would not be heard
            self.tell("output_audio_buffer.cleared", response_id=clock.stream)
            self._played(clock)

    def _break_off(self, response: Response, reason: str = "client_cancelled") -> None:
        self._broke_in = self._broke_in or response.in_conversation
        response.cancel(reason)

    # --- what follows from them ---

    def _generated(self, response: Response) -> None:
        self._active = None
        clock = self.line.track.clock
        if clock is None or clock.stream != response.id:
            self._heard.pop(response.id, None)  # nothing of it is left to play

    def _played(self, clock: Clock) -> None:
        response = self._heard.pop(clock.stream, None)
        if response:
            response.passed(clock, last=True)
            if words := response.heard(clock):
                self._remember(Said("assistant", words))
        self.tell("voxrtc.playout", response_id=clock.stream, played_ms=1000 * clock.played, underruns=clock.underruns)

    def _settings(self) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "realtime.session",
            "type": "realtime",
            "model": self._choice.model,
            "output_modalities": ["audio"],
            "instructions": self._instructions,
            "audio": {
                "input": self._input.describe(answered=self._replier is not None),
                "output": {"voice": self._choice.voice},
            },
        }


async def _once(text: str) -> AsyncGenerator[str, None]:
    yield text


def _said(item: events.Item, text: str) -> Said:
    return Said("assistant" if item.role == "assistant" else "system" if item.role == "system" else "user", text)


def _text(item: events.Item, param: str) -> str:
    """What a message says. Raises `EventError` when it is no message of text."""
    if item.type != "message" or item.role not in ("user", "assistant", "system"):
        message = "Items here are messages of the role user, assistant or system."
        raise EventError("invalid_value", message, f"{param}.type" if item.type != "message" else f"{param}.role")
    kind = "output_text" if item.role == "assistant" else "input_text"
    if not item.content or any(content.type != kind or content.text is None for content in item.content):
        raise EventError(
            "invalid_value", f"A message of the {item.role} has content of type {kind!r} with a text.", f"{param}.content"
        )
    return " ".join(content.text or "" for content in item.content)
