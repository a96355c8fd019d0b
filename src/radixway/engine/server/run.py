"""Run an engine behind its server: bind, load, serve, and on the first signal drain and end."""

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
import uvloop

from radixway.config.engine import EngineConfig
from radixway.engine.engine import Engine, Progress
from radixway.engine.errors import EngineError
from radixway.engine.server.app import App, build_app
from radixway.engine.text import AnswerText
from radixway.tokenizer import TemplateError, Tokenizer, TokenizerError

log = logging.getLogger(__name__)

DRAIN_S = 30.0


class CannotListen(EngineError):
    """The address cannot be listened on; the message says why."""


class BrokenTokenizer(EngineError):
    """The model's tokenizer or chat template cannot be used; the message says why."""


def run_engine(
    config: EngineConfig,
    host: str,
    port: int,
    *,
    on_ready: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    drain_s: float = DRAIN_S,
) -> None:
    """Serve one model until SIGINT or SIGTERM; blocks. `on_ready` is told the URL once requests are welcome.

    Raises EngineError, before anything is served, with a sentence for the user: the port is taken, the model
    is not there or cannot be run.
    """
    uvloop.run(serve(config, host, port, on_ready=on_ready, progress=progress, drain_s=drain_s))


async def serve(
    config: EngineConfig,
    host: str,
    port: int,
    *,
    on_ready: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    drain_s: float = DRAIN_S,
    stop: asyncio.Event | None = None,
) -> None:
    """The same inside a running event loop; `stop` ends it too. Port 0 takes a free one."""
    stop = stop or asyncio.Event()
    with bind(host, port) as listener, _signals_set(stop):
        loaded = await _load(config, progress or _ProgressLog(), stop)
        if loaded is None:
            return
        engine, tokenizer = loaded
        try:
            engine.start()
            app = build_app(engine, tokenizer, config)
            await serve_app(app, listener, stop=stop, on_ready=on_ready or _log_ready, drain_s=drain_s)
        finally:
            await asyncio.to_thread(engine.stop)


async def serve_app(
    app: App,
    listener: socket.socket,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[str], None] = lambda url: None,
    drain_s: float = DRAIN_S,
) -> None:
    """Serve until `stop` is set, then let running requests finish for `drain_s` and end the rest."""
    server = _Server(
        uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            server_header=False,
            log_config=None,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(drain_s) + 5,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    server.on_ready = lambda: on_ready(url_of(listener))
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        app.service.draining = True
        server.should_exit = True
        _, unfinished = await asyncio.wait({serving}, timeout=drain_s)
        if unfinished and (aborted := app.service.abort_all()):
            log.warning("ended %d requests that were not finished after %g s", aborted, drain_s)
        await serving
    finally:
        stopping.cancel()


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address, not yet listening. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        raise CannotListen(f"cannot listen on {host}:{port}: {why}") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Where clients reach it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to us: its own handling raises them again after a clean end."""

    on_ready: Callable[[], None]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except OSError as error:  # another process listens on the port since we bound it
            raise CannotListen(f"cannot listen: {error.strerror}") from error
        self.on_ready()


class _LoadStopped(Exception):
    """A signal came while the model was loading."""


async def _load(
    config: EngineConfig, progress: Progress, stop: asyncio.Event
) -> tuple[Engine, Tokenizer] | None:
    """Load model and tokenizer in a thread; None when `stop` was set meanwhile. Raises EngineError."""

    def told(what: str, share: float) -> None:
        if stop.is_set():
            raise _LoadStopped
        progress(what, share)

    def load() -> tuple[Engine, Tokenizer]:
        holder: list[Tokenizer] = []
        engine = Engine(config, text=lambda params: AnswerText(holder[0], params), progress=told)
        try:
            holder.append(Tokenizer.load(engine.model_info.path))
        except (TokenizerError, TemplateError) as error:
            raise BrokenTokenizer(f"cannot use {config.model}: {error}") from error
        return engine, holder[0]

    try:
        return await asyncio.to_thread(load)
    except _LoadStopped:
        return None


@contextmanager
def _signals_set(stop: asyncio.Event) -> Iterator[None]:
    """The first SIGINT or SIGTERM sets `stop`, in the main thread; a second one ends the process."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()

    def restore() -> None:
        for number in signals:
            loop.remove_signal_handler(number)

    def drain() -> None:
        restore()
        stop.set()

    for number in signals:
        loop.add_signal_handler(number, drain)
    try:
        yield
    finally:
        restore()


class _ProgressLog:
    """Logs each stage of loading when it begins and at every further quarter."""

    def __init__(self) -> None:
        self._what = ""
        self._next_share = 0.0

    def __call__(self, what: str, share: float) -> None:
        if what != self._what or share >= self._next_share:
            self._what, self._next_share = what, share + 0.25
            log.info("%s: %d %%", what, round(100 * share))


def _log_ready(url: str) -> None:
    log.info("serving at %s", url)
