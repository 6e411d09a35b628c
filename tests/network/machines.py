"""Three machines on one: the person's, the server's, and a relay's, joined by the wire."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.network.conditions import Conditions
from tests.network.namespace import Namespace

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = {"person": "10.77.0.0/16", "server": "10.78.0.0/16", "relay": "10.79.0.0/16"}
PERSON, SERVER, RELAY = "10.77.1.2", "10.78.1.2", "10.79.1.2"
ELSEWHERE = "10.77.2.2"  # the person's, in another network
NOWHERE = "10.99.1.2"  # nobody's: what is sent there vanishes


class Machines:
    """`person`, `server` and `relay`; `set` makes a link bad or good, most often the person's."""

    def __init__(self) -> None:
        self.person, self.server, self.relay = Namespace(), Namespace(), Namespace()
        devices = {"person": self.person.plug(PERSON), "server": self.server.plug(SERVER), "relay": self.relay.plug(RELAY)}
        words = [f"{name}={NETWORKS[name]}={device}" for name, device in devices.items()]
        self._wire = subprocess.Popen(
            [sys.executable, "-m", "tests.network.wire", *words],
            cwd=ROOT,
            pass_fds=list(devices.values()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for device in devices.values():
            os.close(device)  # the wire's now
        self.repair()

    def set(self, conditions: Conditions, link: str = "person") -> dict[str, Counter[str]]:
        """The link is like this from now on. What it counted since it was set before, `up` and `down`."""
        assert self._wire.stdin and self._wire.stdout
        print(json.dumps({"link": link, **asdict(conditions)}), file=self._wire.stdin, flush=True)
        line = self._wire.stdout.readline()
        assert line, "the wire broke"
        return {way: Counter(counts) for way, counts in json.loads(line).items()}

    def repair(self) -> None:
        """All links are good."""
        for link in NETWORKS:
            self.set(Conditions(), link)

    def close(self) -> None:
        assert self._wire.stdin
        self._wire.stdin.close()
        self._wire.wait(10)
        for namespace in (self.person, self.server, self.relay):
            namespace.close()
