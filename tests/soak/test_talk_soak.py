"""Four people talk and are silent for long; everything is bounded. `make soak MINUTES=60`."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections import defaultdict
from pathlib import Path

import httpx
import pytest

from tests.census import Held, everybody
from tests.program import Running, running
from tests.rtc.browser import Deaf, Mouth
from tests.speech import SAID, recorded

PEERS = 4
MINUTES = float(os.environ.get("VOXRTC_SOAK_MINUTES", "10"))
PAUSES = (4.0, 30.0)  # seconds between two sentences of a person
WITHIN = 30.0  # seconds in which a sentence is written down
LOOK_EVERY = 5.0  # seconds


class Person(Deaf):
    """Talks now and then, and counts what comes back."""

    def __init__(self, seed: int) -> None:
        super().__init__("sendrecv")
        self.mouth, self._chance = Mouth(), random.Random(seed)
        self._sender.replaceTrack(self.mouth)

    async def chat(self, until: float) -> int:
        """Say sentences, each once the one before was written down. How many there were."""
        said = 0
        while time.monotonic() < until:
            await asyncio.sleep(self._chance.uniform(*PAUSES))
            self.mouth.say(recorded(self._chance.choice(sorted(SAID))))
            await asyncio.wait_for(self.until("conversation.item.input_audio_transcription.completed"), WITHIN)
            said += 1
        return said


async def soak(server: Running) -> tuple[list[Person], list[int], dict[str, list[Held]], list[int]]:
    """People, how much each said, what each process held at each look, and the media process's tasks. Ends if a look fails."""
    people = [Person(seed) for seed in range(PEERS)]
    looks: dict[str, list[Held]] = defaultdict(list)
    tasks: list[int] = []
    async with httpx.AsyncClient(base_url=server.base_url, timeout=60) as http:

        async def watch() -> None:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                tasks.append((await http.get("/v1/voxrtc/stats")).json()["media"]["tasks"])
                for name, now in everybody(server.pid).items():
                    looks[name].append(now)

        for person in people:
            await person.call(http)
        async with asyncio.TaskGroup() as beside:
            watching = beside.create_task(watch())
            said = await asyncio.gather(*(person.chat(time.monotonic() + 60 * MINUTES) for person in people))
            watching.cancel()
        await asyncio.gather(*(person.close() for person in people))
    return people, list(said), looks, tasks


@pytest.mark.soak
def test_four_people_talk_for_long_and_nothing_grows(tmp_path: Path) -> None:
    with running(tmp_path / "log.txt", VOXRTC_CHAT_LOCAL="smollm2-135m") as server:
        people, said, looks, tasks = asyncio.run(soak(server))
    third = len(tasks) // 3
    print(f"{MINUTES:g} minutes: {sum(said)} sentences, {sum(person.counts['response.done'] for person in people)} answers")
    for name, all_looks in looks.items():
        first, last = (
            [statistics.median(values) for values in zip(*((each.rss, each.threads, each.files) for each in part), strict=True)]
            for part in (all_looks[third : 2 * third], all_looks[-third:])
        )
        hourly = (last[0] - first[0]) / 1000 / (MINUTES / 3) * 60
        print(f"{name}: {last[0] / 1000:.0f} MB ({hourly:+.1f} an hour), {last[1]:.0f} threads, {last[2]:.0f} files")
        assert last[0] <= 1.02 * first[0], (name, first, last)
        assert last[1] <= first[1] + 1 and last[2] <= first[2] + 2, (name, first, last)
    print(f"tasks of the media process: {statistics.median(tasks[third : 2 * third])} -> {statistics.median(tasks[-third:])}")
    assert statistics.median(tasks[-third:]) <= statistics.median(tasks[third : 2 * third]) + 2
    for person, sentences in zip(people, said, strict=True):
        assert person.counts["output_audio_buffer.started"] >= 0.9 * sentences - 1, person.counts
        assert not person.counts["error"], person.counts
