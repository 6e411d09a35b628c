"""Who listens at the page."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
from playwright.async_api import Browser as Chromium
from playwright.async_api import Error, Page, Playwright, async_playwright

from tests.chaos.listeners import AGAIN, Listener
from tests.chaos.streams import Stream
from tests.e2e.conftest import CHROMIUMS, FLAGS

LATE = "response_cancel_not_active"  # the page stops what it takes to be playing before it asks for more
SPAWN = multiprocessing.get_context("spawn")
TAP = """(() => {
  const create = RTCPeerConnection.prototype.createDataChannel, kept = ["response.created", "voxrtc.playout", "error"];
  window.told = [];
  RTCPeerConnection.prototype.createDataChannel = function (...given) {
    const channel = create.apply(this, given);
    channel.addEventListener("message", ({ data }) => kept.includes(JSON.parse(data).type) && told.push(JSON.parse(data)));
    return channel;
  };
})();"""
LOOK = """() => ({ told: told.splice(0), state: voxrtc.state,
  trouble: document.querySelector(".vx-trouble[data-shown=true]")?.innerText ?? "" })"""


class Visitor(Listener):
    """At the page, in a Chromium that is started again when it dies. It lives in a process and a session of its own, so that it
    takes no time from who notes when sound comes (sched(7), autogroup); the browser has another, whose share is the least."""

    way = "page"

    async def live(self) -> None:
        here, there = SPAWN.Pipe()
        process = SPAWN.Process(target=_live, args=(str(self._http.base_url), self._seed, there), daemon=True)
        process.start()
        there.close()
        await self._over.wait()
        here.send("stop")
        self.streams = await asyncio.to_thread(here.recv)
        process.join()

    async def visit(self) -> None:
        """As `live`, in this process."""
        with tempfile.TemporaryDirectory() as folder:
            program = _patient(folder)
            async with async_playwright() as playwright:
                while not self._over.is_set():
                    try:
                        await self._visit(playwright, program)
                    except Error:  # its browser is gone
                        await self._rest(AGAIN)

    async def _visit(self, playwright: Playwright, program: Path) -> None:
        browser: Chromium = await playwright.chromium.launch(executable_path=program, args=[*FLAGS, "--no-zygote"])
        try:
            page = await (await browser.new_context(permissions=["microphone"])).new_page()
            await page.add_init_script(TAP)
            await page.goto(str(self._http.base_url))
            await page.wait_for_function("window.voxrtc && document.querySelector('[name=speak]')")
            while not self._over.is_set():
                await self._between(await self._hear(page))
        finally:
            with contextlib.suppress(Error):
                await browser.close()

    async def _hear(self, page: Page) -> Stream:
        async with self._hearing() as stream:
            try:
                await page.get_by_label("Text").fill(stream.text)
                await page.locator("[name=speak]").click()
                await self._follow(stream, page)
            except Error:
                stream.told = "browser gone"
                raise
        return stream

    async def _follow(self, stream: Stream, page: Page) -> None:
        while not (stream.told or stream.seconds):
            await asyncio.sleep(0.2)
            seen = await page.evaluate(LOOK)
            for event in seen["told"]:
                if event.get("error", {}).get("code") != LATE:
                    stream.note(event)
            if not stream.told and seen["state"] == "disconnected" and seen["trouble"]:
                stream.told = f"shown: {seen['trouble'].splitlines()[0]}"


def _live(url: str, seed: int, control: Connection) -> None:
    os.setsid()
    asyncio.run(_visit(url, seed, control))


def _patient(folder: str) -> Path:
    """A Chromium that takes no core from the server's, since a visitor's starts on the visitor's machine. It is a session's
    share that counts, and the browser begins one; of its own niceness it makes what it likes."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)))
    program = Path(folder, "chromium")
    program.write_text(f'#!/bin/sh\necho 19 > /proc/self/autogroup\nexec {found} "$@"\n')
    program.chmod(0o700)
    return program


async def _visit(url: str, seed: int, control: Connection) -> None:
    """Until something comes over `control`, which gets the streams."""
    async with httpx.AsyncClient(base_url=url) as http:
        visitor = Visitor(http, seed)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.remove_reader(control.fileno())
            visitor.stop()

        loop.add_reader(control.fileno(), stop)
        await visitor.visit()
    control.send(visitor.streams)
