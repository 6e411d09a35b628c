"""To and from the speech-to-text process."""

from __future__ import annotations

from voxrtc.messages import Message


class Hear(Message):
    """The next sound of an utterance: PCM16 little endian, mono, 16 kHz. `first` begins one, under a fresh id."""

    utterance: str
    pcm: bytes
    first: bool = False


class Look(Message):
    """The speaker pauses: a `Hypothesis` of all that was sent is due, ahead of others'. Unknown ones are ignored, here too."""

    utterance: str


class Finish(Message):
    """Nothing of the utterance follows: its `Transcript` is due. `speech` bytes of it have speech in them, the rest is silence:
    a hypothesis of so much is as good. Unknown ones are ignored, here and in `Hear`."""

    utterance: str
    speech: int


class Forget(Message):
    """The utterance's transcript is not wanted. Unknown and finished ones are ignored."""

    utterance: str


class Hypothesis(Message):
    """What the first `heard` bytes of the utterance say; later ones may say otherwise. `over` is how probably the speaker
    has finished, where a `Look` asked for it."""

    utterance: str
    text: str
    heard: int
    over: float | None = None


class Transcript(Message):
    """What the utterance says; "" when there are no words in it. Nothing of it follows."""

    utterance: str
    text: str


class NotTranscribed(Message):
    """The utterance has no transcript. Nothing of it follows."""

    utterance: str
    code: str  # busy | transcription_failed | transcriber_lost
    message: str


HearingRequest = Hear | Look | Finish | Forget
HearingReply = Hypothesis | Transcript | NotTranscribed
