"""The page of a server that asks for a key: its way in, that all of it works then, and that no secret gets into its log."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from playwright.sync_api import Browser

from tests.e2e.desk import Desk, open_window
from tests.program import running

SECRETS = {
    "VOXRTC_API_KEYS": "key-of-a-program-0123456789",
    "VOXRTC_AUTH": "ann:open-sesame-0123456789",
    "VOXRTC_CHAT_KEY": "key-of-an-endpoint-0123456789",
    "HF_TOKEN": "hf_token-of-the-hub-0123456789",
    "VOXRTC_TURN_KEY": "key-of-a-relay-0123456789",
}
KEY, (USER, PASSWORD) = SECRETS["VOXRTC_API_KEYS"], SECRETS["VOXRTC_AUTH"].split(":")
VIOLATIONS = (
    "addEventListener('securitypolicyviolation', (e) => (window.broken ||= []).push(`${e.violatedDirective} ${e.blockedURI}`))"
)
LOGGED = {
    "VOXRTC_LOG_FORMAT": "json",
    "VOXRTC_LOG_LEVEL": "DEBUG",
    "VOXRTC_CHAT_URL": "http://127.0.0.1:9/v1",  # where nothing listens
    "VOXRTC_TURN": "turn:127.0.0.1:9",
}


def test_the_page_works_behind_a_login_and_secrets_stay_secret(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with running(log, **SECRETS, **LOGGED) as client:
        page = open_window(browser)
        page.add_init_script(VIOLATIONS)
        page.goto(str(client.base_url))
        assert page.url.endswith("/login")
        for password in ("wrong", PASSWORD):
            page.get_by_label("Name").fill(USER)
            page.get_by_label("Password or key").fill(password)
            page.get_by_role("button", name="Log in").click()
            if password == "wrong":
                page.get_by_role("alert").wait_for()
        page.wait_for_url(lambda url: not url.endswith("login"))
        desk = Desk(page, str(client.base_url))
        desk.speak("Hello.")
        desk.await_sound()
        page.get_by_role("button", name="The last hours").click()  # of Gradio's, by a request of its own
        assert not desk.trouble
        assert page.evaluate("window.broken || []") == []
        page.close()
        programs(client)
    check(log.read_text())


def programs(client: httpx.Client) -> None:
    """With the key, without it, and with all that goes wrong."""
    bearer = {"Authorization": f"Bearer {KEY}"}
    assert client.get("/v1/models").status_code == 401
    assert client.get("/v1/models", headers={"Authorization": f"Bearer {KEY}x"}).status_code == 401
    assert client.get("/v1/models", headers=bearer).status_code == 200
    assert "voxrtc_ttfa_seconds_count" in client.get("/metrics", headers=bearer).text
    for body in ("{", '{"input": 1}', '{"input": "one", "model": "parrot"}'):
        assert client.post("/v1/audio/speech", content=body, headers=bearer | {"Content-Type": "application/json"}).is_error
    assert client.get("/healthz", headers={"X-Large": "x" * 20_000}).status_code == 431
    try:  # what reads them gives up before all of them have come, and may hang up on whoever goes on
        assert client.get("/healthz", headers={"X-Large": "x" * 200_000}).status_code == 400
    except httpx.NetworkError:
        pass
    offer = {"Content-Type": "application/sdp"} | bearer
    assert client.post("/v1/realtime/calls", content="v=0\r\nnonsense", headers=offer).status_code == 400
    assert client.post("/v1/audio/speech", json={"input": "one"}, headers=bearer | {"Origin": "https://evil.example"}).is_error
    assert client.post("/login", data={"username": KEY, "password": PASSWORD}).status_code == 401


def check(log: str) -> None:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"web", "media", "engine", "speech-to-text"} <= {line["process"] for line in lines}
    assert [line for line in lines if line["message"].startswith("a login from") and line["level"] == "WARNING"]
    begun = next(line for line in lines if line["message"].startswith("a call begins"))
    response = next(line for line in lines if line["message"].startswith("a response of lark"))
    assert (
        response["call"] == begun["call"] and response["session"].startswith("sess_") and response["stream"].startswith("resp_")
    )
    assert "Hello." not in log, "nothing that was said is in it"
    for secret in (KEY, PASSWORD, *SECRETS.values()):
        assert secret not in log
