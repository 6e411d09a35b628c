"""One Realtime session: OpenAI's events in and out, sound on the line's track.

A response answers the conversation, where there is somebody to answer: the model itself, if it hears, else a `Replier`.
Otherwise it speaks the user's last message itself, if it was typed; what the person says is then transcribed and no more.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from voxrtc import logs
from voxrtc.asr.client import Transcriber
from voxrtc.chat import events, items
from voxrtc.chat.answerer import Answerer
from voxrtc.chat.choice import Choice, choose
from voxrtc.chat.conversation import Conversation
from voxrtc.chat.ear import Ear
from voxrtc.chat.events import EventError
from voxrtc.chat.formats import Blocks, blocks_of, decode, describe
from voxrtc.chat.given import Given
from voxrtc.chat.input_buffer import InputBuffer
from voxrtc.chat.manner import Manner
from voxrtc.chat.outputs import Outputs
from voxrtc.chat.reply import Replier
from voxrtc.chat.response import Response
from voxrtc.chat.session_settings import Format, Ours, SessionSettings
from voxrtc.chat.speaking import Line, Speaking
from voxrtc.chat.stages import Marks, Turn
from voxrtc.chat.tally import Tally
from voxrtc.chat.turns import TurnSettings
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.calls import Network
from voxrtc.messages.engine import Generate, Reference
from voxrtc.rtc.playout import Clock
from voxrtc.rtc.sound import Samples

log = logging.getLogger(__name__)
DEFAULTS = Ours()


class Session:
    """The conversation with one peer, as its `PeerListener`, and as its microphone's `input_buffer.Listener`.

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
        manner: Manner,
        tally: Tally,
        recordings: Mapping[str, Reference],  # by the ids of the voices in them
        ours: Ours = DEFAULTS,
        id: str = "",
    ) -> None:
        self._engines, self._choice, self._recordings = engines, choice, recordings
        self._manner, self.background, self.id = manner, ours.background, id or events.new_id("sess")
        self._about = {**logs.ids(), "session": self.id}  # with the call that it began with
        self._delivery = (ours.instructions or "").strip()  # how to speak, in words
        self._ear = Ear(transcriber, engines, lambda: self.model, self.id)
        self._answerer = Answerer(engines, self._ear, replier)
        self._input = InputBuffer(self, self._ear, detect, turns)
        self.speaking = Speaking(engines, lambda: self.line, self.tell, tally)
        self._conversation = Conversation()
        self._given = Given(self._ear, self.tell, self._conversation.understood)
        self._appended = Blocks(Format())  # by `input_audio_buffer.append`
        self.output_format = Format()  # of the sound in `response.output_audio.delta`
        self.network: Network | None = None  # as the client measured it last
        self._turn: Turn | None = None  # the last one said, until it is answered
        self.took: str | None = None  # id of the last event of the client's that had one

    # --- the peer's side (PeerListener) ---

    def opened(self) -> None:
        self.tell("session.created", session=self._settings())

    def received(self, text: str | bytes) -> None:
        if event := self.parsed(text):
            self.handle(event)

    @property
    def model(self) -> str:
        """What speaks next."""
        return self._choice.model

    @property
    def voice(self) -> str:
        """What it speaks with."""
        return self._choice.voice

    def lose_voice(self, voice: str) -> None:
        """The recording of this voice was deleted. Who speaks with it stops, and goes on with the model's own."""
        self.speaking.lose_voice(voice)
        if self._choice.voice == voice:
            with contextlib.suppress(EventError):  # its model is gone as well
                self._choice = choose(self._engines.known, None, None, self._choice, self._recordings)
            self.tell("session.updated", session=self._settings())

    @property
    def input_format(self) -> Format:
        """Of the sound in `input_audio_buffer.append`."""
        return self._appended.format

    def parsed(self, text: str | bytes, most: int = events.MAX_EVENT) -> events.AnyClientEvent | None:
        """The event in a message, of at most so many bytes. A mistake is told."""
        try:
            return events.parse(text, most)
        except EventError as error:
            self._complain(error)
            return None

    def handle(self, event: events.AnyClientEvent) -> None:
        """Mistakes are told."""
        self.took = event.event_id or self.took
        try:
            with logs.of(**self._about):  # packets come in turns of the loop that are others'
                self._handle(event)
        except EventError as error:
            self._complain(error, event.event_id)
        except Exception:
            log.exception("an event could not be handled")
            message = "This event failed inside the server; its log says why."
            self.line.send(events.error("internal_error", message, None, event.event_id, "server_error"))

    def heard(self, block: Samples) -> None:
        self._input.heard(block)

    def closed(self) -> None:
        self.speaking.close()
        self._input.drop()
        self._ear.close()
        self._given.close()

    def started(self, clock: Clock) -> None:
        self.speaking.started(clock)

    def progress(self, clock: Clock) -> None:
        self.speaking.progress(clock)

    def stopped(self, clock: Clock) -> None:
        self.speaking.stopped(clock)

    # --- the microphone's side (input_buffer.Listener) ---

    def tell(self, type: str, **fields: Any) -> None:
        self.line.send(events.event(type, **fields))

    def committed(self, id: str) -> None:
        self._turn = Turn(self._input.speech_end, time.monotonic(), self._input.speech_start)
        item = items.Message(id, "user", [items.Heard()])
        previous = self._conversation.add(item)
        self.tell("input_audio_buffer.committed", previous_item_id=previous, item_id=id)
        self._tell_item(item, previous)

    def hold(self) -> bool:
        return self.speaking.hold()

    @property
    def ending(self) -> bool:
        return self.speaking.ending

    def resume(self) -> None:
        self.speaking.resume()

    def interrupt(self) -> None:
        self.speaking.interrupt()

    def finished(self, id: str) -> None:
        if self._ear.given(id):
            self._answer()

    def said(self, id: str, transcript: str | None) -> None:
        self._conversation.understood(id, transcript)
        if transcript and self._answerer.who(self.model) and not self._ear.given(id):
            self._answer()

    def _answer(self) -> None:
        """Of itself, unless that is not wished or something else is being answered."""
        turns = self._input.settings
        if turns and turns.respond and not self.speaking.active:
            self.handle(events.ResponseCreate())

    # --- client events ---

    def _handle(self, event: events.AnyClientEvent) -> None:
        match event:
            case events.SessionUpdate():
                self._update(event.session)
            case events.ItemCreate():
                self._create(event)
            case events.ItemRetrieve():
                self.tell("conversation.item.retrieved", item=self._conversation.find(event.item_id).wire())
            case events.ItemTruncate(item_id=id, content_index=part, audio_end_ms=end):
                self._conversation.truncate(id, part, end / 1000)
                self.speaking.truncated(id)
                self.tell("conversation.item.truncated", item_id=id, content_index=part, audio_end_ms=end)
            case events.ItemDelete(item_id=id):
                self._conversation.delete(id)
                self._ear.drop(id)
                self.tell("conversation.item.deleted", item_id=id)
            case events.ResponseCreate():
                self._respond(event.response or events.ResponseSettings())
            case events.ResponseCancel():
                self.speaking.cancel(event.response_id)
            case events.OutputClear():
                self.speaking.clear()
            case events.InputAppend():
                for block in self._appended.add(event.audio, "audio"):
                    self._input.heard(block)
            case events.InputCommit():
                for block in self._appended.rest():
                    self._input.heard(block)
                self._input.commit()
            case events.InputClear():
                self._appended.rest()
                self._input.clear()
            case events.Ping():
                self.tell("voxrtc.pong", id=event.id, t=event.t, server_time=1000 * time.monotonic(), packets=self.line.packets)
            case events.Measured(network=network):
                self.network = network
                if network.loss is not None:
                    self.line.track.lost(network.loss)
            case events.Pong():
                pass  # that it came in was its message

    def _update(self, wish: SessionSettings) -> None:
        choice = choose(self._engines.known, wish.model, wish.voice, self._choice, self._recordings)
        self._manner = self._manner.updated(wish, "session")
        self._choice = choice
        if wish.voxrtc.instructions is not None:
            self._delivery = wish.voxrtc.instructions.strip()
        self._appended = Blocks(wish.input_format or self.input_format)
        self.output_format = wish.output_format or self.output_format
        if (turns := wish.turns(self._input.settings)) != self._input.settings:
            self._input.configure(turns)
        self.tell("session.updated", session=self._settings())

    def _create(self, event: events.ItemCreate) -> None:
        item = items.read(event.item, "item")
        self._turn = None  # what is asked for next answers this, too
        if isinstance(item, items.FunctionOutput) and not self._conversation.called(item.call_id):
            message = f"There was no call {item.call_id[:64]!r} in the conversation."
            raise EventError("invalid_tool_call_id", message, "item.call_id")
        given, form = enumerate(event.item.content), self.input_format
        sound = [decode(part.audio, form, f"item.content[{number}].audio") for number, part in given if part.audio]
        self._tell_item(item, self._conversation.add(item, event.previous_item_id))
        if any(not part.known.is_set() for part in items.heard(item)):
            self._given.add(item.id, chain.from_iterable(blocks_of(samples, form) for samples in sound))

    def _complain(self, error: EventError, cause: str | None = None) -> None:
        self.line.send(events.error(error.code, str(error), error.param, error.event_id or cause))

    def _tell_item(self, item: items.Item, previous: str | None) -> None:
        self.tell("conversation.item.added", previous_item_id=previous, item=item.wire())
        self.tell("conversation.item.done", previous_item_id=previous, item=item.wire())

    # --- responses ---

    def _respond(self, wish: events.ResponseSettings) -> None:
        self.speaking.check_free()
        manner = self._manner.updated(wish, "response")
        choice = choose(self._engines.known, None, wish.voice, self._choice, self._recordings)
        request = Generate(
            stream=events.new_id("resp"),
            text="",
            accepted=time.monotonic(),
            model=choice.model,
            voice=choice.voice,
            reference=self._recordings.get(choice.voice),
            priority=self.speaking.priority,
            background=self.background,
            instructions=self._delivery,
        )
        turn, self._turn = self._turn, None
        marks = Marks(request.accepted, turn if wish.input is None else None)
        parts = self._answerer.answer(wish.input, self._conversation, manner, marks, choice.model, bool(self._delivery))
        into = self._conversation if wish.conversation == "auto" else None
        outputs = Outputs(self.line.send, into, request.stream, manner.modality)
        self.speaking.start(Response(self.line.send, request, marks, parts, outputs, wish.metadata))

    def _settings(self) -> dict[str, Any]:
        heard = self._input.describe(answered=(who := self._answerer.who(self.model)) is not None)
        return {
            "id": self.id,
            "object": "realtime.session",
            "type": "realtime",
            "model": self._choice.model,
            **self._manner.describe(),
            "voxrtc": {"answers": who, "instructions": self._delivery},
            "audio": {
                "input": {"format": describe(self.input_format), **heard},
                "output": {"format": describe(self.output_format), "voice": self._choice.voice},
            },
        }
