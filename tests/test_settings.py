"""Secrets in the settings: which process has them."""

from __future__ import annotations

import pytest
from aiortc.rtcicetransport import connection_kwargs
from pydantic import ValidationError

from voxrtc.rtc import ice
from voxrtc.settings import SECRETS, Settings

TURN, CHAT, HUB = "turn-secret", "chat-secret", "hub-secret"


@pytest.fixture
def secretive(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("VOXRTC_TURN_KEY", TURN)
    monkeypatch.setenv("VOXRTC_CHAT_KEY", CHAT)
    monkeypatch.setenv("HF_TOKEN", HUB)
    return Settings()


def test_a_child_process_has_the_secrets_that_it_needs_and_no_others(secretive: Settings) -> None:
    for needed, value in (("VOXRTC_CHAT_KEY", CHAT), ("HF_TOKEN", HUB)):
        environment = secretive.environment(needed)
        assert environment[needed] == value
        assert all(environment[other] == "" for other in SECRETS if other != needed), "they hide what we inherited"
    assert not {TURN, CHAT, HUB} & set(secretive.environment().values())


def test_a_child_reads_the_same_settings(secretive: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in secretive.environment("VOXRTC_CHAT_KEY").items():
        monkeypatch.setenv(name, value)
    child = Settings()
    assert child.chat_key.get_secret_value() == CHAT
    assert child.turn_key.get_secret_value() == ""
    assert child == secretive.model_copy(update={"turn_key": child.turn_key})


def test_secrets_are_not_shown(secretive: Settings) -> None:
    for shown in (repr(secretive), str(secretive), secretive.model_dump_json()):
        assert TURN not in shown
        assert CHAT not in shown


def test_what_stands_around_a_key_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line's end comes along with what is read from a file, and no request's header may have it."""
    for name in ("VOXRTC_TURN_KEY", "VOXRTC_TURN_USER", "VOXRTC_CHAT_KEY"):
        monkeypatch.setenv(name, " value\n")
    settings = Settings()
    assert settings.turn_user == settings.turn_secret == settings.chat_key.get_secret_value() == "value"
    monkeypatch.setenv("VOXRTC_TURN_KEY", "\n")
    monkeypatch.setenv("HF_TOKEN", "token\n")
    assert Settings(turn="huggingface").turn_secret == "token"


def test_the_hub_s_token_is_sent_to_a_relay_service_only_if_that_is_chosen(secretive: Settings) -> None:
    hub = secretive.model_copy(update={"turn": "huggingface"})
    assert hub.turn_secret == TURN, "one that is given goes first"
    assert hub.model_copy(update={"turn_key": type(hub.turn_key)("")}).turn_secret == HUB
    assert secretive.model_copy(update={"turn_key": type(hub.turn_key)(""), "turn": "cloudflare"}).turn_secret == ""


def test_a_space_is_behind_a_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACE_ID", raising=False)
    assert not Settings().relay
    monkeypatch.setenv("SPACE_ID", "me/voxrtc")
    assert Settings().relay


@pytest.mark.parametrize(
    "stun",
    [
        "stun.example.org",
        "stun:",
        "stun:stun.example.org:port",
        "stun:stun.example.org:70000",
        "stun:stun.example.org:0",
        "stun:stun.example.org?transport=udp",
        "stun:[2001:db8::1]:3478",
        "stuns:stun.example.org:5349",
        "stun://stun.example.org",
        "turn:stun.example.org",
    ],
)
def test_a_mistyped_stun_server_is_told_at_the_start_and_not_to_each_caller(stun: str) -> None:
    with pytest.raises(ValidationError, match=r"stun:stun\.example\.org:3478"):
        Settings(stun=stun)


@pytest.mark.parametrize("stun", ["stun:stun.example.org:3478", "stun:stun.example.org", " stun:192.0.2.1:3478\n"])
def test_what_is_taken_for_a_stun_server_aiortc_takes_too(stun: str) -> None:
    servers = ice.configuration(Settings(stun=stun).stun).iceServers
    assert servers
    assert "stun_server" in connection_kwargs(servers)


def test_no_stun_server_is_none() -> None:
    assert Settings(stun="").stun == ""


def test_a_public_host_has_no_crowd_unless_told_so() -> None:
    assert (Settings(public=False).crowd, Settings(public=True).crowd, Settings(public=True, crowd=9).crowd) == (64, 0, 9)


def test_each_media_process_brings_its_places_and_needs_one() -> None:
    settings = [Settings(), Settings(media_processes=3), Settings(media_processes=3, max_peers=9)]
    assert [each.max_peers for each in settings] == [80, 240, 9]
    with pytest.raises(ValueError, match="a place each"):
        Settings(media_processes=3, max_peers=2)
