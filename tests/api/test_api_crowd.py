from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from tests.waiting import answered, until
from voxrtc.api.app import build_app
from voxrtc.crowd.crowd import Crowd
from voxrtc.messages.engine import Generate

pytestmark = pytest.mark.anyio
CROWD, POLICY = "/v1/voxrtc/crowd", "/v1/voxrtc/policy"


@pytest.fixture
def tone() -> ToneTransport:
    return ToneTransport(speed=5.0)


@pytest.fixture
async def http(tone: ToneTransport) -> AsyncIterator[httpx.AsyncClient]:
    engines = tones(tone)
    crowd = Crowd(engines, most=8)
    transport = httpx.ASGITransport(build_app(engines, EchoMedia(), crowd=crowd), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as client:
        yield client
    await crowd.close()
    await engines.close()


async def test_listeners_come_and_go(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    nobody = (await http.get(CROWD)).json()
    assert (nobody["most"], nobody["listeners"], nobody["voices"], nobody["policy"]) == (8, 0, [], "playout")
    come = await http.post(CROWD, json={"listeners": 3, "model": "tone"})
    assert come.status_code == 200 and come.json()["listeners"] == len(come.json()["voices"]) == 3

    async def begun() -> dict[str, Any] | None:
        now = (await http.get(CROWD)).json()
        return now if now["figures"]["playout"]["started"] >= 3 else None

    told = await answered(begun)
    assert told["model"] == "tone" and {voice[1] for voice in told["voices"]} <= {"waiting", "playing", "dry"}
    assert (await http.post(CROWD, json={"listeners": 0})).json()["voices"] == []
    await until(lambda: all(task.done() for task in tone.tasks.values()))
    assert all(request.background for request in tone.requests if isinstance(request, Generate))


async def test_the_policy_is_changed_for_all(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    for policy in ("fifo", "two_phase", "playout"):
        switched = await http.post(POLICY, json={"policy": policy})
        assert (switched.status_code, switched.json()["policy"], tone.policy) == (200, policy, policy)
        assert policy in (await http.get("/v1/voxrtc/crowd")).json()["figures"]


async def test_an_engine_that_comes_back_plans_as_it_was_told(http: httpx.AsyncClient, tone: ToneTransport) -> None:
    await http.post(POLICY, json={"policy": "fifo"})
    tone.lose()
    assert (await http.post(POLICY, json={"policy": "two_phase"})).status_code == 200
    tone.policy = "playout"  # as a new process has it
    tone.find()
    assert tone.policy == "two_phase"


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (CROWD, {"listeners": 9}, 400, "At most 8"),
        (CROWD, {"listeners": -1}, 400, "listeners"),
        (CROWD, {"listeners": "3"}, 400, "listeners"),
        (CROWD, {"listeners": 1, "model": "x" * 201}, 400, "`model`"),
        (CROWD, {"listeners": 2.5}, 400, "listeners"),
        (CROWD, {}, 400, "required"),
        (CROWD, [], 400, ""),
        (CROWD, {"listeners": 1, "model": "gull"}, 404, "gull"),
        (POLICY, {"policy": "offline"}, 400, "policy"),
        (POLICY, {}, 400, "required"),
    ],
)
async def test_mistakes_are_told(http: httpx.AsyncClient, path: str, body: object, status: int, words: str) -> None:
    answer = await http.post(path, json=body)
    assert answer.status_code == status and words in answer.json()["error"]["message"]
    assert (await http.get(CROWD)).json()["listeners"] == 0


@pytest.mark.parametrize(("path", "body"), [(CROWD, {"listeners": 1}), (POLICY, {"policy": "fifo"})])
async def test_other_sites_change_nothing(http: httpx.AsyncClient, tone: ToneTransport, path: str, body: object) -> None:
    refused = await http.post(path, json=body, headers={"Origin": "https://evil.example"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "cross_origin")
    assert (await http.post(path, content="{}", headers={"Content-Type": "text/plain"})).status_code == 415
    told = (await http.get(CROWD)).json()
    assert (told["listeners"], told["policy"], tone.policy) == (0, "playout", "playout")


async def test_where_it_is_switched_off_one_may_only_look(tone: ToneTransport) -> None:
    transport = httpx.ASGITransport(build_app(tones(tone), EchoMedia()), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as http:
        assert (await http.get(CROWD)).json()["most"] == 0
        for path, body in ((CROWD, {"listeners": 1}), (CROWD, {"listeners": 0}), (POLICY, {"policy": "fifo"})):
            refused = await http.post(path, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "crowd_off")


async def test_without_a_model_it_says_what_to_do(tone: ToneTransport) -> None:
    tone.lost = True
    engines = tones(tone)
    transport = httpx.ASGITransport(build_app(engines, EchoMedia(), crowd=Crowd(engines, 8)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://voxrtc") as http:
        answer = await http.post(CROWD, json={"listeners": 1})
        assert answer.status_code == 404 and "Load one" in answer.json()["error"]["message"]
