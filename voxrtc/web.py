"""The web process: page, HTTP API and signalling, and the children behind them. Where all the parts come together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from fastapi import APIRouter, FastAPI

from voxrtc import logs, machine, traces
from voxrtc.api import history, login, replies, stats
from voxrtc.api.access import Access
from voxrtc.api.app import build_app
from voxrtc.api.errors import ApiError
from voxrtc.api.history import History
from voxrtc.api.host import PublicHost, Rules
from voxrtc.api.hosting import Hosting
from voxrtc.api.whole import whole
from voxrtc.asr.whisper import NotInstalled, check_installed
from voxrtc.cards import Card, CardError, names, read_card, read_files
from voxrtc.chat.media_client import CallRefused, MediaClient
from voxrtc.chat.sums import added
from voxrtc.chat.switchboard import Switchboard
from voxrtc.crowd.company import Company
from voxrtc.crowd.crowd import Crowd
from voxrtc.engine.fleet import Fleet
from voxrtc.engine.keeper import Budget, Keeper
from voxrtc.engine.room import NoRoom
from voxrtc.engine.transport import ZmqTransport
from voxrtc.learned import Learned
from voxrtc.listening import listen, place, url
from voxrtc.llm.client import CompletionClient
from voxrtc.processes import CrowdProcess, EngineProcesses, media_names, media_processes
from voxrtc.rtc import turn
from voxrtc.rtc.turn import Relays
from voxrtc.serving import Server, configured
from voxrtc.settings import HUB, HUB_TOKENS, Settings, on_a_space
from voxrtc.stalls import Stalls
from voxrtc.suggestion import Suggestion
from voxrtc.supervisor import Child, Supervisor
from voxrtc.ui import programs
from voxrtc.ui.markup import login_form
from voxrtc.ui.page import mount_page

MOST_PEERS = 8  # WebRTC peers of a crowd: each takes some percent of a core on either side

log = logging.getLogger(__name__)


def main(settings: Settings) -> None:
    """Serve until interrupted, or asked to end. Ends the program with a sentence when it cannot begin."""
    logs.configure("web", settings, quiet=("httpx", "asyncio"))
    traces.configure()
    try:
        models = _cards(settings)
        if settings.embedded:
            read_files(settings.chat_models, settings.chat_local)
        if settings.hearing == "whisper":
            check_installed()
        relays = Relays(turn.provider(settings.turn, settings.turn_user, settings.turn_secret))
        listener, folder = listen(settings), _folder()
    except (CardError, NotInstalled, OSError, ValueError) as wrong:
        sys.exit(str(wrong))
    # uvicorn raises a signal that ended it at once anew; as an exception it runs the way out past the children.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(settings, models, listener, relays, folder))
    finally:
        traces.close()


def _cards(settings: Settings) -> dict[str, Card]:
    """All cards, the default model's first. Raises `CardError` when that one is wrong; others are left out."""
    cards = {settings.model: read_card(settings.models, settings.model)}
    for name in names(settings.models):
        try:
            cards.setdefault(name, read_card(settings.models, name))
        except CardError as wrong:
            log.warning("%s", wrong)
    return cards


def _folder() -> tempfile.TemporaryDirectory[str]:
    """For the sockets of the processes; gone with this one."""
    try:
        return tempfile.TemporaryDirectory(prefix="voxrtc-")
    except OSError as full:
        message = f"There is no place for temporary files ({full.strerror}). Free some space, or set TMPDIR to another folder."
        raise OSError(message) from full


async def _serve(
    settings: Settings,
    cards: dict[str, Card],
    listener: socket.socket,
    relays: Relays,
    folder_for_sockets: tempfile.TemporaryDirectory[str],
) -> None:
    with folder_for_sockets as folder:
        # Gradio's own is one for all of a machine's servers, and the first to end would delete what others have said
        os.environ["GRADIO_TEMP_DIR"] = os.environ.get("GRADIO_TEMP_DIR") or str(Path(folder, "files"))
        # Numbers, since a model's name need not be one of a file
        addresses = {model: f"ipc://{Path(folder, f'engine-{number}')}" for number, model in enumerate(cards)}
        media_addresses = {name: f"ipc://{Path(folder, name)}" for name in media_names(settings)}
        hearing_address, chat_address = (f"ipc://{Path(folder, name)}" for name in ("hearing", "chat"))
        from_hub = settings.environment(*HUB_TOKENS)
        hearing = Child("speech-to-text", ["-m", "voxrtc.asr.process", "--listen", hearing_address], from_hub)
        chat_process = Child("chat", ["-m", "voxrtc.llm.process", "--listen", chat_address], from_hub)
        replier = chat_address if settings.embedded else ""
        medias = media_processes(settings, media_addresses, addresses, hearing_address, replier)
        async with Supervisor([*medias, hearing]) as supervisor:
            processes = EngineProcesses(supervisor, settings, cards, addresses)
            engines = Fleet({model: ZmqTransport(address) for model, address in addresses.items()}, processes)
            media = Switchboard({name: MediaClient(address) for name, address in media_addresses.items()})
            keeper = _keeper(settings, engines, cards, media)
            await _load_first(engines, keeper)
            chat, stalls = CompletionClient(chat_address), Stalls()
            past = History(partial(stats.count, engines, media))
            who_answers = replies.router(settings, lambda: chat.progress)
            hosting = _hosting(settings, relays, media)
            crowd = _crowd(settings, engines, supervisor, hosting.access, place(listener), f"ipc://{Path(folder, 'crowd')}")
            app = _app(engines, media, keeper, who_answers, hosting, crowd, past, lambda: supervisor.restarts, stalls)

            def start_chat() -> None:
                if settings.embedded:
                    supervisor.start(chat_process)

            async def let_end(seconds: float) -> None:
                crowd.resize(0)
                with contextlib.suppress(CallRefused):  # no media process is there, and so no call
                    await media.drain(seconds)
                await hosting.drain.idle()

            server = Server(configured(app, settings.proxies), app.state.feed, hosting.drain, let_end)
            greeting = _greet(engines, media, cards[settings.model], listener, start_chat)
            beside = (greeting, keeper.watch(), past.keep(), app.state.cloning.keep(), stalls.watch())
            tasks = [asyncio.create_task(each) for each in beside]
            await server.serve(sockets=[listener])
            for task in tasks:
                task.cancel()
            await crowd.close()
            await engines.close()
            await media.close()
            await chat.close()
            await relays.close()


def _crowd(settings: Settings, engines: Fleet, supervisor: Supervisor, access: Access, place: str, address: str) -> Crowd:
    """Its WebRTC peers call this very server, with a key that only they have."""
    arguments = ["-m", "voxrtc.crowd.process", "--server", place, "--listen", address]
    environment = settings.environment() | {"VOXRTC_API_KEYS": access.internal}
    process = CrowdProcess(supervisor, Child("crowd", arguments, environment))
    company = Company(address, process, min(MOST_PEERS, settings.crowd))
    return Crowd(engines, settings.crowd, settings.policy, company=company)


def _keeper(settings: Settings, engines: Fleet, cards: dict[str, Card], media: Switchboard) -> Keeper:
    look = partial(machine.look, settings.device, settings.dtype)
    here = look()
    learned = Learned(f"{here.gpu or 'cpu'}, {8 * here.numbers} bits")
    budget = Budget(settings.model_memory, settings.max_streams)

    async def talking() -> list[str]:
        try:
            return added((await media.stats()).values()).talking
        except CallRefused:  # no media process is there, so nobody talks
            return []

    return Keeper(engines, cards, learned, look, machine.measure, budget, talking)


async def _load_first(engines: Fleet, keeper: Keeper) -> None:
    """The default model, in any case: if it does not fit, its engine says so best."""
    try:
        await keeper.load(engines.default)
    except NoRoom as short:
        log.warning("%s", short)
        await engines.load(engines.default)


def _hosting(settings: Settings, relays: Relays, media: Switchboard) -> Hosting:
    keys, login = settings.access
    ways = {
        "access": Access(keys, login),
        "origins": settings.trusted,
        "frames": frozenset({HUB} if on_a_space() else ()),
    }
    if not settings.public:
        return Hosting(relays, settings.relay, **ways)
    rules = Rules(settings.public_calls, settings.public_starts, settings.max_peers, 60 * settings.public_minutes)
    public = PublicHost(rules, media)
    media.over = public.over
    return Hosting(relays, settings.relay, public, **ways)


def _app(
    engines: Fleet,
    media: Switchboard,
    keeper: Keeper,
    who_answers: APIRouter,
    hosting: Hosting,
    crowd: Crowd,
    past: History,
    restarts: Callable[[], dict[str, int]],
    stalls: Stalls,
) -> FastAPI:
    cards = list(keeper.cards.values())
    suggestion = Suggestion(cards, gpu=bool(keeper.machine.gpu))
    suggestion.look()
    app = build_app(engines, media, keeper, suggestion.name, hosting, crowd, restarts, lambda: stalls.stood)
    app.include_router(who_answers)
    app.include_router(history.router(past))

    async def say(text: str, model: str, voice: str, address: str) -> tuple[int, bytes]:
        try:
            leave = hosting.host.listen(address)
        except ApiError as error:
            raise ValueError(str(error.detail)) from None
        try:
            return await whole(engines, text, model, voice)
        finally:
            leave()

    if hosting.access.locked:
        app.include_router(login.router(hosting.access, *login_form(), embedded=bool(hosting.frames | hosting.origins)))
    add = partial(programs.offer, say=say, ready=engines.models)
    mount_page(app, [card.info for card in cards], lambda: msgspec.to_builtins(past.minutes), add)
    return app


async def _greet(
    engines: Fleet, media: Switchboard, card: Card, listener: socket.socket, start_chat: Callable[[], None]
) -> None:
    """Print the address once a person who opens it can speak; before a download, which the page shows.

    The chat model is started then, so that the voice need not wait for it.
    """
    where = url(*listener.getsockname()[:2])
    await media.ready()
    if card.missing():
        _print(f"VoxRTC fetches {card.info.title} and shows how far it is: {where}")
    state = await engines.settled(card.info.name)
    start_chat()
    if state.state == "ready":
        _print(f"VoxRTC is ready: {where}")
    elif state.state == "failed":
        _print(f"{card.info.title} could not be loaded; others can, here: {where}")


def _print(sentence: str) -> None:
    """For a person who may be there, on a terminal or in a file; a disk that is full stops nothing."""
    with contextlib.suppress(OSError):
        print(f"\n  {sentence}\n", flush=True)
