"""Every setting of the program, from the environment (`VOXRTC_*`; `HOST` and `PORT` plain) and the command line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from voxrtc.endpoints import STUN, checked, names

ROOT = Path(__file__).resolve().parent.parent

PRIVATE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,::1,fc00::/7"

# Of all processes only those that need one have it; see `Settings.environment`
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
SECRETS = ("VOXRTC_CHAT_KEY", "VOXRTC_TURN_KEY", "VOXRTC_API_KEYS", "VOXRTC_AUTH", *HUB_TOKENS)
PEERS = 80  # calls that a media process has places for, unless it is told otherwise
SHORTEST_KEY = 16  # characters: what is shorter can be guessed
HUB = "https://huggingface.co"  # shows Spaces in a frame
DEVICE = r"^(auto|cpu|cuda(:\d+)?)$"


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
    device: str = Field("auto", pattern=DEVICE, description="cpu, cuda or cuda:N; auto: a GPU if there is one")
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="the model's numbers; auto: bfloat16 on a GPU")
    detokenizer_device: str = Field(
        "auto", pattern=DEVICE, description="of the model's detokenizer; auto: that of its language model"
    )
    disaggregated: bool = Field(
        False, description="run the detokenizer in a process of its own, beside that of the language model"
    )
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
    media_processes: int = Field(
        1,
        ge=1,
        description="processes for WebRTC and conversations, a core each, on which we count for some 100 people with open "
        "microphones; more pay where more people call, on a machine with cores to spare",
    )
    max_peers: int = Field(
        default_factory=lambda settings: PEERS * settings["media_processes"],
        ge=1,
        description=f"browsers connected at a time, shared out among media processes; by default {PEERS} for each",
    )
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
    api_keys: SecretStr = Field(
        SecretStr(""), description="keys, with commas, one of which every request must show; none: all may use this server"
    )
    auth: SecretStr = Field(SecretStr(""), description="user:password to log in to the page with, beside or without keys")
    origins: str = Field(
        "", description="other sites, with commas (https://www.example.org), whose pages may use this server and show its page"
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
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="from which level on is logged")
    log_format: Literal["plain", "json"] = Field("plain", description="of the log: lines to read, or an object of JSON a line")

    @field_validator("max_peers")
    @classmethod
    def _a_place_each(cls, places: int, others: ValidationInfo) -> int:
        if places < (processes := others.data.get("media_processes", 1)):
            raise ValueError(f"{processes} media processes need a place each")
        return places

    @field_validator("chat_url")
    @classmethod
    def _an_endpoint(cls, url: str) -> str:
        return checked(url) if url else url

    @field_validator("stun", "turn", "turn_user")
    @classmethod
    def _stripped(cls, text: str) -> str:
        return text.strip()

    @field_validator("chat_key", "turn_key")
    @classmethod
    def _stripped_key(cls, key: SecretStr) -> SecretStr:
        return SecretStr(key.get_secret_value().strip())  # a line's end comes along with what is read from a file

    @field_validator("stun")
    @classmethod
    def _a_stun_server(cls, url: str) -> str:
        if url and not names(STUN, url):
            raise ValueError(f"it is an address like stun:stun.example.org:3478; not “{url}”")
        return url

    @field_validator("api_keys")
    @classmethod
    def _long_keys(cls, keys: SecretStr) -> SecretStr:
        if any(len(key) < SHORTEST_KEY for key in _listed(keys.get_secret_value())):
            raise ValueError(f"a key has at least {SHORTEST_KEY} characters; `openssl rand -hex 24` makes a good one")
        return keys

    @field_validator("auth")
    @classmethod
    def _a_login(cls, auth: SecretStr) -> SecretStr:
        user, _, password = auth.get_secret_value().partition(":")
        if auth.get_secret_value() and not (user and password):
            raise ValueError("it is user:password")
        return auth

    @field_validator("origins")
    @classmethod
    def _sites(cls, origins: str) -> str:
        for origin in _listed(origins):
            if not re.fullmatch(r"https?://[^/?#@\s*]+", origin):
                raise ValueError(f"“{origin}” is no origin: it is https:// and a name, without a path")
        return origins

    @property
    def access(self) -> tuple[list[str], tuple[str, str] | None]:
        """The keys, and the login; in clear."""
        user, _, password = self.auth.get_secret_value().partition(":")
        return _listed(self.api_keys.get_secret_value()), (user, password) if password else None

    @property
    def trusted(self) -> frozenset[str]:
        """The origins of `origins`; and, on a Space, its own, whatever its proxies make of it."""
        own = os.environ.get("SPACE_HOST", "")
        return frozenset([*_listed(self.origins), *([f"https://{own}"] if own else [])])

    @property
    def secrets(self) -> list[str]:
        """All that no log may show."""
        keys, login = self.access
        known = [self.chat_key.get_secret_value(), self.turn_key.get_secret_value(), *keys, *(login or ())[1:]]
        return [each for each in (*known, *(os.environ.get(name, "") for name in HUB_TOKENS)) if each]

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
        return os.environ.get("HF_TOKEN", "").strip() if self.turn == "huggingface" and not key else key

    def environment(self, *secrets: str) -> dict[str, str]:
        """The settings as the environment of a child process, with these of `SECRETS` and without the others."""
        fields = self.model_dump(mode="json", exclude={"host", "port", "chat_key", "turn_key", "api_keys", "auth"})
        plain = {f"VOXRTC_{name.upper()}": str(value) for name, value in fields.items()}
        known = {**os.environ, "VOXRTC_CHAT_KEY": self.chat_key.get_secret_value()}
        return plain | {name: known.get(name, "") if name in secrets else "" for name in SECRETS}


def _listed(text: str) -> list[str]:
    """What stands between commas."""
    return [each for part in text.split(",") if (each := part.strip())]
