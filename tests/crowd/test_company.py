"""WebRTC peers of a crowd: their process comes and goes with the wish for them, and what they heard is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.crowd.theatre import Theatre, Time
from tests.fake_engine import TONE_MODEL
from tests.waiting import until
from voxrtc.crowd.company import Company
from voxrtc.crowd.crowd import LONELY, RELOAD, Crowd
from voxrtc.engine.transport import Listener
from voxrtc.messages.crowd import Listened, Peers, PeerState, Want

pytestmark = pytest.mark.anyio


class Stagehand:
    """The process, which is a listener here: `wants` are what it was told."""

    def __init__(self, address: str) -> None:
        self.address, self.wants = address, list[Want]()
        self.client, self.life = b"", list[str]()
        self.serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.life.append("start")
        self.listener = Listener(self.address, Want)
        self.serving = asyncio.create_task(self.listener.serve(self._take))

    async def stop(self) -> None:
        self.life.append("stop")
        assert self.serving
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)

    def tell(self, news: Peers) -> None:
        self.listener.send(self.client, news)

    def _take(self, client: bytes, want: Want) -> None:
        self.client = client
        self.wants.append(want)


@pytest.fixture
def hand(tmp_path: Path) -> Stagehand:
    return Stagehand(f"ipc://{tmp_path}/crowd")


async def test_the_process_is_there_while_there_are_peers(hand: Stagehand) -> None:
    company = Company(hand.address, hand, most=4)
    assert not hand.life
    company.want(2, "tone")
    await until(lambda: hand.wants)
    assert (hand.life, hand.wants[-1]) == (["start"], Want(peers=2, model="tone"))
    company.want(3, "tone")
    await until(lambda: hand.wants[-1].peers == 3)
    hand.tell(Peers(peers=[PeerState(number=1, phase="playing", response="resp_1")], heard=[]))
    await until(lambda: company.peers)
    company.want(0, "tone")
    await until(lambda: hand.life == ["start", "stop"] and not company.peers)
    company.want(1, "tone")
    await until(lambda: hand.wants[-1].peers == 1)
    assert hand.life == ["start", "stop", "start"]
    company.want(0, "")
    company.want(1, "tone")
    company.want(0, "")
    await company.close()
    assert hand.life[-1] == "stop" and hand.life.count("start") == hand.life.count("stop"), "in the order of the wishes"


async def test_one_that_could_not_be_started_stands_in_nobody_s_way(hand: Stagehand, monkeypatch: pytest.MonkeyPatch) -> None:
    company = Company(hand.address, hand, most=4)
    with monkeypatch.context() as patch:
        patch.setattr(hand, "start", lambda: 1 / 0)
        patch.setattr(hand, "stop", hand.start)
        company.want(1, "tone")
        company.want(0, "tone")
        await until(lambda: company._changing and company._changing.done())
    company.want(2, "tone")
    await until(lambda: hand.wants == [Want(peers=2, model="tone")])
    company.want(0, "")
    await company.close()
    assert hand.life == ["start", "stop"]


async def test_a_process_that_was_restarted_is_told_again(hand: Stagehand) -> None:
    company = Company(hand.address, hand, most=4)
    company.want(2, "tone")
    await until(lambda: hand.wants)
    await hand.stop()
    hand.wants.clear()
    hand.start()
    await until(lambda: hand.wants == [Want(peers=2, model="tone")])
    company.want(0, "")
    await company.close()


async def test_what_peers_heard_counts_for_the_policy_that_it_was_asked_under(hand: Stagehand) -> None:
    time = Time()
    company = Company(hand.address, hand, most=4)
    crowd = Crowd(Theatre(time), 8, clock=time.clock, sleep=time.sleep, company=company)
    crowd.resize(0, peers=2)
    await until(lambda: hand.wants)
    state = crowd.look()
    assert (state.listeners, state.peers, state.most_peers, state.figures["playout"].listeners) == (0, 2, 4, 2)
    well = Listened(asked=time.now, ttfa=0.2, underruns=0)
    before = Listened(asked=time.now - 1, ttfa=9.0, underruns=9)
    dry = Listened(asked=time.now, ttfa=0.4, underruns=3)
    playing = PeerState(number=1, phase="playing", response="resp_1")
    hand.tell(Peers(peers=[playing], heard=[well, before, dry]))
    await until(lambda: crowd.look().figures["playout"].started)
    figures = crowd.look().figures["playout"]
    assert (figures.started, figures.dry, figures.p50_ttfa, figures.p90_ttfa) == (2, 1, 0.2, 0.4)
    assert crowd.look().calls == [playing]
    await crowd.close()
    assert hand.life == ["start", "stop"] and crowd.look().calls == []


async def test_peers_that_nobody_looks_at_hang_up(hand: Stagehand) -> None:
    time = Time()
    crowd = Crowd(Theatre(time), 8, clock=time.clock, sleep=time.sleep, company=Company(hand.address, hand, most=4))
    crowd.resize(1, peers=1)
    await until(lambda: hand.wants)
    await time.passes(LONELY + 2)
    await until(lambda: hand.life == ["start", "stop"])
    assert (crowd.size, crowd.peers) == (0, 0)
    await crowd.close()


@pytest.mark.parametrize("listeners", [0, 1])
async def test_peers_of_a_model_that_is_gone_leave_and_it_is_said_why(hand: Stagehand, listeners: int) -> None:
    time = Time()
    theatre = Theatre(time)
    crowd = Crowd(theatre, 8, clock=time.clock, sleep=time.sleep, company=Company(hand.address, hand, most=4))
    crowd.resize(listeners, peers=2)
    await until(lambda: hand.wants)
    known, theatre.known = theatre.known, []
    await time.passes(RELOAD - 2)
    theatre.known = known  # it was loaded again
    await time.passes(RELOAD - 2)
    assert crowd.peers == 2
    theatre.known = []
    await time.passes(RELOAD + 2)
    assert (crowd.size, crowd.peers) == (0, 0) and "“tone” cannot speak any more" in crowd.look().trouble
    await until(lambda: hand.life == ["start", "stop"])
    await crowd.close()


async def test_peers_with_another_model_count_anew(hand: Stagehand) -> None:
    time = Time()
    theatre = Theatre(time)
    theatre.known.append(msgspec.structs.replace(TONE_MODEL, name="bird"))
    crowd = Crowd(theatre, 8, clock=time.clock, sleep=time.sleep, company=Company(hand.address, hand, most=4))
    crowd.resize(0, peers=2, model="tone")
    await until(lambda: hand.wants)
    hand.tell(Peers(peers=[], heard=[Listened(asked=time.now, ttfa=0.2, underruns=0)]))
    await until(lambda: crowd.look().figures["playout"].started)
    await time.passes(1)
    crowd.resize(0, peers=2, model="bird")
    figures = crowd.look().figures["playout"]
    assert (figures.started, figures.listeners, figures.seconds) == (0, 2, 0)
    await crowd.close()
