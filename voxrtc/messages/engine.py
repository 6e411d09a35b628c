"""To and from an engine: its streams, how it works and how it does. About its model: `messages.model`."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from voxrtc.messages import Message
from voxrtc.messages.conversation import ConversationTurn, Forget, Hear, Wrote
from voxrtc.messages.model import GetModels, GetUse, Models, Progress, Unload, Unloaded, Use, Watch
from voxrtc.recent import Histogram, Latency

# --- to it -------------------------------------------------------------------------------------------------------------


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream chooses its audio tokens. `None` leaves a setting to the model's own default."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A recording of a voice to speak with: PCM16 little endian, mono, and what is said in it, if that is known."""

    pcm: bytes
    sample_rate: int
    text: str = ""

    @property
    def digest(self) -> str:
        """The same for recordings that are the same to the last bit, and their text; for no others (SHA-256)."""
        return hashlib.sha256(b"%d %b\0%b" % (self.sample_rate, self.text.encode(errors="surrogatepass"), self.pcm)).hexdigest()


class Generate(Message):
    """Speak `text`, with `voice` or, where there is a `reference`, with the voice recorded there.

    A model that hears answers instead: the `conversation`, or where there is none, `text`, which a user typed.

    `stream` is a fresh id chosen by the caller; `accepted` is when its listener's request came in.

    A text that is not `final` is still being written: `Extend` brings the rest. For models that are `running`.

    `priority` is for someone who is in a conversation and broke in: the reply waits before strangers, and a full queue takes
    it still. Who gives it sees to it that one person has one such stream at a time; that bounds them.

    A `background` stream has no person behind it. It gives way to all that have: it waits behind them, pauses while one of them
    is short of sound, and ends (`Failed` with `gave_way`) when one needs its place.

    `instructions` say in words how to speak; models that are not `instructed` do not care.

    One that `continues` follows upon a stream that its listener hears: its first sound is nobody's first.
    """

    stream: str
    text: str
    accepted: float
    model: str = ""  # "": the default model
    voice: str = "default"
    sampling: Sampling = Sampling()
    priority: bool = False
    background: bool = False
    continues: bool = False
    reference: Reference | None = None
    final: bool = True
    instructions: str = ""
    conversation: tuple[ConversationTurn, ...] = ()


class Extend(Message):
    """More of a stream's text, and no more after it if it is `final`. Unknown and finished streams are ignored."""

    stream: str
    text: str
    final: bool = False


class Cancel(Message):
    """Stop a stream before its next step. Unknown and finished streams are ignored."""

    stream: str


class ForgetVoice(Message):
    """Drop what was made of the recording with this `Reference.digest`. Streams that speak with it keep it to their end."""

    digest: str


class Playout(Message):
    """A listener's playout clock: seconds of the stream that it has played, and whether it is consuming sound now.

    `at` dates the reading; between readings the engine lets the clock run on while `running` holds. A listener that keeps
    what it gets, like a download, says how many seconds it has `taken`: no interruption can waste those, so they do not
    count as made too early.
    """

    stream: str
    played: float
    at: float
    running: bool
    taken: float | None = None


PolicyName = Literal["playout", "fifo", "two_phase", "offline"]


class SetPolicy(Message):
    """Have a ready engine plan by this policy from its next step on. Streams go on as they are; `Stats` says what holds."""

    policy: PolicyName


class SetReplicas(Message):
    """Have so many replicas of the model: of an engine that is a cluster of them. Those that go end when their streams have."""

    count: int


class GetStats(Message):
    """Ask a ready engine for `Stats`."""

    call: int


# --- from it -----------------------------------------------------------------------------------------------------------


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """When a stream passed each stage on its way to its first chunk."""

    accepted: float  # the request came in
    received: float  # the engine has it
    prompt_ready: float  # text has become a prompt
    first_step: float  # the scheduler let it into a step
    first_frame: float  # its first audio tokens exist
    first_chunk: float  # its first sound exists


class Queued(Message):
    """The stream waits for a place in the engine. Told again as that changes; a stream that gets in is not told: it sounds."""

    stream: str
    position: int  # 1: the next to get in
    wait: float  # seconds it is expected to take


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """From `begin` to `end` (seconds of a stream's sound) its text is spoken on, to `characters` of it: a word, where the
    model knows when it speaks which, or else all that came between."""

    begin: float
    end: float
    characters: int


class Chunk(Message):
    """Consecutive sound of a stream: PCM16 little endian, mono. `timing` comes with the first one only.

    `spoken` is what is known anew of where its text is spoken, in order; it may lie in sound that is yet to come. `frames` of
    a model that hears are what came since the last chunk's, for `Replied`.
    """

    stream: str
    index: int
    pcm: bytes
    sample_rate: int
    timing: Timing | None = None
    spoken: list[Spoken] = msgspec.field(default_factory=list)
    frames: bytes = b""


class Ended(Message):
    """The stream is over and holds nothing in the engine any more. Nothing of it follows."""

    stream: str
    reason: str  # done | cancelled
    frames: int  # audio-token frames computed
    frames_after_cancel: int = 0


class Failed(Message):
    """The stream ended in an error that its listener should be told. Nothing of it follows."""

    stream: str
    code: str  # invalid_request | model_not_found | model_loading | model_failed | busy | gave_way | engine_error | engine_lost
    message: str
    retry_after: float | None = None  # seconds; with `busy` and `model_loading`


class StreamStats(msgspec.Struct, frozen=True, kw_only=True):
    """One live stream as the scheduler sees it."""

    stream: str
    state: str
    frames: int
    slack: float | None  # seconds of sound its listener still has to play; None before the first chunk
    background: bool = False
    replica: str = ""  # that has it, of several


class CostStats(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine has learned of one kind of work: milliseconds of a call, and more for each thing in it."""

    call_ms: float
    each_ms: dict[str, float]
    observed: int  # calls


class StepStats(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of the last second: how many, and on average the streams in one, its milliseconds, and what it was expected
    to cost. Of none there are no averages. `recorded` is the share of them that CUDA graphs repeated, and `gap_ms` how long the
    device typically was without a step between two."""

    count: int = 0
    streams: float = 0.0
    ms: float | None = None
    expected_ms: float | None = None
    recorded: float = 0.0
    gap_ms: float | None = None


class ReplicaStats(msgspec.Struct, frozen=True, kw_only=True):
    """One of several replicas that are one engine to others."""

    name: str
    streams: int
    waiting: int  # of the streams


class Stats(Message):
    """The engine's counters since it started, and its present load."""

    call: int
    uptime: float
    steps: int
    frames: int
    chunks: int
    finished: int
    cancelled: int
    failed: int
    frames_after_cancel: int
    preempted: int
    gave_way: int  # background streams that ended for a listener's sake
    paused: float  # seconds of its busy time in which background streams stood for a listener's sake
    policy: PolicyName
    kv_pages_used: int
    kv_pages: int
    waiting: int  # of the streams, those that have not got in yet
    overhead: float  # share of its busy time that the engine's thread spent outside the model
    costs: dict[str, CostStats]
    streams: list[StreamStats]
    slots: int = 0  # streams that can be in at a time; 0: any
    ttfa: Latency = Latency()  # from a request to its first sound, of late
    lately: StepStats = StepStats()
    first_sounds: Histogram = Histogram()  # the same since the start
    step_times: Histogram = Histogram()
    now: float = 0.0  # by the engine's clock
    replicas: list[ReplicaStats] = msgspec.field(default_factory=list)  # none of an engine by itself
    graphs: int = 0  # CUDA graphs that were recorded, of steps and of the detokenizer's passes
    recorded: int = 0  # of the steps, those that were repeated from them
    caution: float = 1.0  # by how much more than its costs say the machine is planned for
    codec_passes: int = 0  # of the detokenizer; a call is one or several
    codec_recorded: int = 0  # of these, those that were repeated from CUDA graphs


EngineRequest = (
    Generate
    | Extend
    | Hear
    | Forget
    | Cancel
    | ForgetVoice
    | Playout
    | SetPolicy
    | SetReplicas
    | Watch
    | Unload
    | GetUse
    | GetModels
    | GetStats
)
EngineReply = Queued | Chunk | Wrote | Ended | Failed | Progress | Unloaded | Use | Models | Stats
