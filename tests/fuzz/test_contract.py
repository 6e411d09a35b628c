"""What `/openapi.json` promises, by schemathesis: to every route requests that it allows and such that it does not. Each answer
has a status, a media type and a shape that are told, what is wrong is refused, and nothing fails that was not foreseen."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import soundfile
from hypothesis import HealthCheck, Phase, given, settings

from tests.api.test_cloning import speech
from tests.api.test_contract import everything
from tests.serving import serving

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.specs.openapi import checks  # noqa: E402

ENDLESS = ("/v1/voxrtc/live", "/v1/voxrtc/queue")  # server-sent events
# What only who has a call, a voice or a load under way is granted
BY_CHANCE = {f"{method} /v1/audio/voices/{{id}}" for method in ("GET", "DELETE")}
BY_CHANCE |= {"DELETE /v1/realtime/calls/{call}", "POST /v1/realtime/calls/{call}/hangup"}
BY_CHANCE |= {f"POST /v1/voxrtc/models/{{name}}/{what}" for what in ("cancel", "unload", "replicas")}
HELD = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
WORDS = io.BytesIO()
soundfile.write(WORDS, speech(), 24_000, format="WAV")
REAL = {"audio_sample": WORDS.getvalue(), "file": WORDS.getvalue(), "model": "tone", "input": "one two", "voice": "default"}
REAL |= {"listeners": 1, "peers": 0, "count": 1}
EASY = settings(
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    derandomize=True,
    database=None,
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with all routes but those of a public host."""
    with serving(everything(tmp_path_factory.mktemp("models"))) as (host, port):
        yield f"http://{host}:{port}"


def promised(url: str) -> list[Any]:
    """The routes, as schemathesis reads them."""
    found = [each.ok() for each in schemathesis.openapi.from_url(f"{url}/openapi.json").get_all_operations()]
    return [operation for operation in found if operation.path not in ENDLESS]


def known(case: Any) -> Any:
    """The same request, with names of what is there, and sounds that can be heard, in the place of those made up."""
    if "name" in (case.path_parameters or {}):
        case.path_parameters["name"] = "tone"
    if isinstance(case.body, dict):
        case.body = {name: REAL.get(name, value) for name, value in case.body.items()}
    return case


def hold(cases: Any, held: list[Any], url: str, examples: int) -> set[int]:
    """One route to its promises; how it answered."""
    seen: set[int] = set()

    @settings(EASY, max_examples=examples)
    @given(cases)
    def try_one(case: Any) -> None:
        answer = case.call(base_url=url, timeout=20)
        assert answer.status_code < 500 or answer.status_code == 503, (case.as_curl_command(), answer.content)
        case.validate_response(answer, checks=held)
        seen.add(answer.status_code)

    try_one()
    return seen


@pytest.mark.parametrize("examples", [1, pytest.param(100, marks=pytest.mark.chaos)])
def test_what_is_promised_is_held(examples: int, url: str) -> None:
    right, wrong = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    seen: dict[str, set[int]] = {}
    with httpx.Client(base_url=url) as http:
        for operation in promised(url):
            http.post("/v1/voxrtc/models/tone/load", json={}).raise_for_status()
            allowed = operation.as_strategy(right)
            seen[operation.label] = hold(allowed.map(known), HELD, url, examples) | hold(allowed, HELD, url, examples)
            if [*operation.body, *operation.query]:  # there is something to do wrong
                rejected = [*HELD, checks.negative_data_rejection]
                statuses = hold(operation.as_strategy(wrong), rejected, url, examples)
                assert statuses & {400, 404, 415}, operation.label
    refused = {label for label, statuses in seen.items() if not any(200 <= status < 300 for status in statuses)}
    assert refused <= BY_CHANCE, "each was asked what it grants"
