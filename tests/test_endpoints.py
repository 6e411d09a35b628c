from __future__ import annotations

import pytest
from pydantic import ValidationError

from voxrtc.endpoints import checked
from voxrtc.settings import Settings

METADATA = "where a cloud tells"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "begins with https"),
        ("gopher://chat.example/v1", "begins with https"),
        ("chat.example/v1", "begins with https"),
        ("http:///v1", "begins with https"),
        ("https://me:secret@chat.example/v1", "the key has a setting"),
        ("https://chat.example/v1?key=secret", "ends before any"),
        ("http://169.254.169.254/latest", METADATA),
        ("http://169.254.1.1:80/v1", METADATA),
        ("http://[fe80::1]/v1", METADATA),
        ("http://[fe80::1%25eth0]/v1", METADATA),
        ("http://[::ffff:169.254.169.254]/v1", METADATA),
        ("http://[fd00:ec2::254]/v1", METADATA),
        ("http://2852039166/v1", METADATA),
        ("http://0xa9.0xfe.43518/v1", METADATA),
        ("http://100.100.100.200/v1", METADATA),
        ("http://Metadata.Google.Internal./v1", METADATA),
        ("http://0.0.0.0:80/v1", METADATA),
    ],
)
def test_what_is_no_endpoint_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        checked(url)
    with pytest.raises(ValidationError, match=why):
        Settings(chat_url=url)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.org/v1",
        "http://127.0.0.1:11434/v1",
        "http://10.0.0.7:8000/v1",
        "http://[::1]:8000/v1",
        "http://llm/v1",
    ],
)
def test_endpoints_may_be_on_this_machine_and_network(url: str) -> None:
    assert checked(url) == url
    assert Settings(chat_url=url).chat_url == url


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"api_keys": "short"}, "at least 16"),
        ({"api_keys": f"{'k' * 20},x"}, "at least 16"),
        ({"auth": "nobody"}, "user:password"),
        ({"auth": ":password"}, "user:password"),
        ({"origins": "https://www.example.org/"}, "is no origin"),
        ({"origins": "*"}, "is no origin"),
        ({"log_format": "xml"}, "json"),
    ],
)
def test_settings_of_access_are_checked_and_never_quoted(wrong: dict[str, str], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Settings(**wrong)  # type: ignore[arg-type]


def test_keys_and_login_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXRTC_API_KEYS", f" {'a' * 16}, {'b' * 20},")
    monkeypatch.setenv("VOXRTC_AUTH", "ann:a:b")
    settings = Settings(origins="https://a.example, http://b.example:8000")
    assert settings.access == (["a" * 16, "b" * 20], ("ann", "a:b"))
    assert settings.trusted == {"https://a.example", "http://b.example:8000"}
    monkeypatch.setenv("SPACE_HOST", "me-voxrtc.hf.space")
    assert settings.trusted == {"https://a.example", "http://b.example:8000", "https://me-voxrtc.hf.space"}
    assert {"a" * 16, "b" * 20, "a:b"} <= set(settings.secrets)
    child = settings.environment("VOXRTC_CHAT_KEY")
    assert child["VOXRTC_API_KEYS"] == child["VOXRTC_AUTH"] == ""
    assert "a" * 16 not in repr(settings) + settings.model_dump_json()
    assert Settings().access[1] == ("ann", "a:b")
