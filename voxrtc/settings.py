"""Every setting of the program, from the environment (`VOXRTC_*`; `HOST` and `PORT` plain) and the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

ROOT = Path(__file__).resolve().parent.parent

PRIVATE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,::1,fc00::/7"

# Of all processes only those that need one have it; see `Settings.environment`
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
SECRETS = ("VOXRTC_CHAT_KEY", "VOXRTC_TURN_KEY", *HUB_TOKENS)


def on_a_space() -> bool:
    """Whether this is a Hugging Face Space."""
    return bool(os.environ.get("SPACE_ID"))


class Settings(BaseSettings):
    """Settings, from the command line or the environment (HOST, PORT, otherwise VOXRTC_ and the name)."""

    model_config = SettingsConfigDict(
        env_prefix="VOXRTC_", cli_kebab_case=True, cli_prog_name="app.py", cli_hide_none_type=True
    )

    host: str = Field(
        "127.0.0.1", validation_alias=AliasChoices("HOST", "GRADIO_SERVER_NAME"), description="address to listen on"
    )
    port: int = Field(
        7860, ge=0, le=65535, validation_alias=AliasChoices("PORT", "GRADIO_SERVER_PORT"), description="0: any free one"
    )
    models: Path = Field(ROOT / "models", description="folder of model cards")
    model: str = Field("lark", description="the model to load and to speak with by default")
    device: str = Field(
        "auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="cpu, cuda or cuda:N; auto: a GPU if there is one"
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="the model's numbers; auto: bfloat16 on a GPU")
    kv_memory: float = Field(0, ge=0, description="GB for the key-value cache; 0: by the memory that is free")
    model_memory: float = Field(
        0,
        ge=0,
        description="GB that all loaded models may take, those not used for longest are unloaded for others; 0: what is free",
    )
    workers: Literal["local", "ray"] = Field(
        "local", description="who runs engines: this machine, or Ray, wherever there is a place (docs/SCALE.md)"
    )
    replicas: int = Field(1, ge=1, description="engines of each model, among which streams are shared out")
    policy: Literal["playout", "fifo", "two_phase", "offline"] = Field("playout", description="what the engine runs when")
    first_chunk: int = Field(0, ge=0, description="frames of a stream's first chunk where the policy has fixed sizes; 0: 0.2 s")
    chunk: int = Field(0, ge=0, description="frames of its later chunks; 0: 0.2 s")
    max_streams: int = Field(64, ge=1, description="streams the engine works on at a time; more wait")
    max_waiting: int = Field(64, ge=1, description="streams that may wait; more are refused")
    max_peers: int = Field(80, ge=1, description="browsers connected at a time")
    public: bool = Field(
        default_factory=on_a_space,
        description="open to all: bounds for each address and call, and a queue; by default on a Hugging Face Space",
    )
    crowd: int = Field(
        default_factory=lambda settings: 0 if settings["public"] else 64,
        ge=0,
        description="most virtual listeners that a visitor may add; by default 64, on a public host 0: none, and no change "
        "of policy",
    )
    public_calls: int = Field(3, ge=1, description="calls that one address may have at a time on a public host")
    public_starts: int = Field(20, ge=1, description="calls that it may begin in a minute")
    public_minutes: float = Field(10, gt=0, description="how long a call may last there")
    proxies: str = Field(
        default_factory=lambda: PRIVATE if on_a_space() else "127.0.0.1,::1",
        description="proxies whose X-Forwarded-For is believed: addresses or networks, with commas; by default this machine, "
        "on a Hugging Face Space all private ones",
    )
    hearing: Literal["moonshine", "whisper"] = Field(
        "moonshine", description="speech to text: moonshine hears English; whisper is slower and wants faster-whisper installed"
    )
    whisper_model: str = Field("tiny.en", description="a size of Whisper (tiny, small.en, …), from the hub, or a folder")
    chat_url: str = Field(
        "", description="chat endpoint (OpenAI's API, up to /v1) that answers what people say; by default --chat-local does"
    )
    chat_model: str = Field("", description="the model to ask there")
    chat_key: SecretStr = Field(
        SecretStr(""), description="its key; better from the environment, where other users of this machine do not see it"
    )
    chat_local: str = Field(
        "smollm2-135m",
        description="the chat model on this machine that answers without an endpoint: a card in models/chat; none: no model",
    )
    instructions: str = Field(
        "You are talking with somebody by voice. Answer in one or two short sentences, in plain spoken words.",
        description="what the chat model is told first",
    )
    stun: str = Field(
        "", description="STUN url for peers beyond this machine's network; none by default: a silent one costs each call 0.8 s"
    )
    turn: str = Field(
        "",
        description="relay for browsers that no UDP reaches: huggingface, cloudflare, twilio, or addresses of a TURN server "
        "(turns:turn.example.org:443?transport=tcp), with commas",
    )
    turn_user: str = Field("", description="the id of Cloudflare's TURN key, Twilio's account SID, or the TURN server's user")
    turn_key: SecretStr = Field(
        SecretStr(""),
        description="the service's token (huggingface: by default HF_TOKEN), the user's password, or, without a user, the "
        "TURN server's shared secret; better from the environment",
    )
    relay: bool = Field(
        default_factory=on_a_space,
        description="this server goes through the relay itself, where it gets no UDP; by default on a Hugging Face Space",
    )
    ice_loopback: bool = Field(False, description="offer peers 127.0.0.1 only: for tests and benches on one machine")
    log_level: str = Field("INFO", description="DEBUG, INFO, WARNING or ERROR")

    @property
    def transcription(self) -> dict[str, str]:
        """Speech to text as a session object tells it: the model, and the language if it has one only."""
        model = "moonshine-tiny" if self.hearing == "moonshine" else f"whisper-{Path(self.whisper_model).name}"
        english = self.hearing == "moonshine" or model.endswith(".en")
        return {"model": model, "language": "en"} if english else {"model": model}

    @property
    def chat_models(self) -> Path:
        """The folder of the chat models' cards."""
        return ROOT / "models" / "chat"

    @property
    def embedded(self) -> bool:
        """Whether the chat model on this machine answers."""
        return not self.chat_url and self.chat_local != "none"

    @property
    def turn_secret(self) -> str:
        """`turn_key`, in clear; Hugging Face knows us by the hub's token, which many have set."""
        key = self.turn_key.get_secret_value()
        return os.environ.get("HF_TOKEN", "") if self.turn == "huggingface" and not key else key

    def environment(self, *secrets: str) -> dict[str, str]:
        """The settings as the environment of a child process, with these of `SECRETS` and without the others."""
        fields = self.model_dump(mode="json", exclude={"host", "port", "chat_key", "turn_key"})
        plain = {f"VOXRTC_{name.upper()}": str(value) for name, value in fields.items()}
        known = {**os.environ, "VOXRTC_CHAT_KEY": self.chat_key.get_secret_value()}
        return plain | {name: known.get(name, "") if name in secrets else "" for name in SECRETS}
