"""Run an engine behind its server: bind, load, serve, and on the first signal drain and end."""

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from radixway.core.component import running
from radixway.core.config.engine import EngineConfig
from radixway.core.http import (
    AppServer,
    CannotListenError,
    ServerLimits,
    bind_tcp,
    cancel_process_exit,
    exit_process_within,
)
from radixway.core.telemetry.tracing import RequestTracer
from radixway.core.tokenizer import TemplateError, Tokenizer, TokenizerError
from radixway.engine.detokenizer import DetokenizedStream
from radixway.engine.engine import Engine
from radixway.engine.errors import EngineError
from radixway.engine.hub_download import LoadProgress
from radixway.engine.server.app import EngineApp, build_app

log = logging.getLogger(__name__)

DRAIN_S = 30.0
_ABORTED_ANSWER_GRACE_S = 5.0  # for answers that were ended to say so
_STOP_TIMEOUT_S = 30.0  # after a signal, for all but the drain


class AddressInUseError(EngineError):
    """The address cannot be listened on; the message says why."""


class TokenizerLoadError(EngineError):
    """The model's tokenizer or chat template cannot be used; the message says why."""


async def serve(
    config: EngineConfig,
    host: str,
    port: int,
    *,
    on_ready: Callable[[str], None] | None = None,
    progress: LoadProgress | None = None,
    drain_s: float = DRAIN_S,
    stop: asyncio.Event | None = None,
    tracing: RequestTracer | None = None,
    limits: ServerLimits | None = None,
) -> None:
    """Serve one model until SIGINT, SIGTERM or `stop`. Port 0 takes a free one.

    `on_ready` gets the URL once requests are accepted. Raises EngineError, before anything is served, with
    a sentence for the user: the port is taken, the model is not there or cannot be run.
    """
    stop = stop or asyncio.Event()
    try:
        listener = bind_tcp(host, port)
    except CannotListenError as error:
        raise AddressInUseError(str(error)) from None
    with listener, _signal_handlers(stop, drain_s):
        loaded = await _load_engine(config, progress or _ProgressLog(), stop)
        if loaded is None:
            return
        engine, tokenizer = loaded
        try:
            engine.start()
            app = build_app(engine, tokenizer, config, tracing=tracing)
            async with running([] if tracing is None else [tracing]):
                await serve_app(
                    app,
                    listener,
                    stop=stop,
                    on_ready=on_ready or _log_ready,
                    drain_s=drain_s,
                    limits=limits,
                )
        finally:
            await asyncio.to_thread(engine.stop)


async def serve_app(
    app: EngineApp,
    listener: socket.socket,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[str], None] = lambda url: None,
    drain_s: float = DRAIN_S,
    limits: ServerLimits | None = None,
) -> None:
    """Serve until `stop` is set, then let running requests finish for `drain_s` and end the rest."""
    server = AppServer(app, listener, drain_s=drain_s + _ABORTED_ANSWER_GRACE_S, limits=limits)
    serving = asyncio.create_task(server.serve(lambda: on_ready(server.url)))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        app.service.draining = True
        server.stop()
        _, unfinished = await asyncio.wait({serving}, timeout=drain_s)
        if unfinished and (aborted := app.service.abort_all_requests()):
            log.warning("aborted %d requests that were still running after %g s", aborted, drain_s)
        await serving
    finally:
        stopping.cancel()


class _LoadCancelledError(Exception):
    """A signal came while the model was loading."""


async def _load_engine(
    config: EngineConfig, progress: LoadProgress, stop: asyncio.Event
) -> tuple[Engine, Tokenizer] | None:
    """Load model and tokenizer in a thread; None if `stop` is set in between. Raises EngineError."""

    def report(what: str, share: float) -> None:
        if stop.is_set():
            raise _LoadCancelledError
        progress(what, share)

    def load() -> tuple[Engine, Tokenizer]:
        holder: list[Tokenizer] = []
        engine = Engine(config, text=lambda params: DetokenizedStream(holder[0], params), progress=report)
        try:
            holder.append(Tokenizer.load(engine.model_info.path))
        except (TokenizerError, TemplateError) as error:
            engine.stop()
            raise TokenizerLoadError(f"cannot use {config.model}: {error}") from error
        return engine, holder[0]

    try:
        return await asyncio.to_thread(load)
    except _LoadCancelledError:
        return None


@contextmanager
def _signal_handlers(stop: asyncio.Event, drain_s: float) -> Iterator[None]:
    """Handle signals: the first SIGINT or SIGTERM sets `stop`, a second ends the process.

    A hanging stop ends, too: `drain_s` is for requests only.
    """
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()

    def restore() -> None:
        for number in signals:
            loop.remove_signal_handler(number)

    def drain() -> None:
        restore()
        for number in signals:  # Python's own SIGINT would wait for threads that still work
            signal.signal(number, signal.SIG_DFL)
        exit_process_within(drain_s + _STOP_TIMEOUT_S)
        stop.set()

    for number in signals:
        loop.add_signal_handler(number, drain)
    try:
        yield
    finally:
        restore()
        if signals:
            cancel_process_exit()


class _ProgressLog:
    """Logs each loading stage at its start and at each quarter."""

    def __init__(self) -> None:
        self._next_share: dict[str, float] = {}

    def __call__(self, what: str, share: float) -> None:
        if share >= self._next_share.get(what, 0.0):
            self._next_share[what] = share + 0.25
            log.info("%s: %d %%", what, round(100 * share))


def _log_ready(url: str) -> None:
    log.info("serving at %s", url)
