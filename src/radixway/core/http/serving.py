"""Serve an ASGI application with uvicorn: bind first, say when it is ready, drain when asked to stop."""

import asyncio
import atexit
import errno
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import uvicorn
import uvloop

from radixway.core.http.asgi import App
from radixway.core.http.connections import ConnectionState, ServerCounts, ServerLimits
from radixway.core.http.direct_exchange import DirectHandlers
from radixway.core.http.http_protocol import HttpProtocol

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

EXIT_TIMEOUT_S = 15.0
"""Time to end after serving, for threads and the interpreter."""
_DUMP_TIMEOUT_S = 2.0
"""Time to write the stacks of all threads to standard error."""


def exit_process_within(timeout_s: float) -> None:
    """End this process with status 1, if it is still there in `timeout_s` seconds; the latest call counts.

    Standard error then says where each thread was. It takes no thread or signal handler of Python's.
    Main thread only.
    """
    with suppress(AttributeError, OSError, RuntimeError, ValueError):  # there is no standard error
        faulthandler.dump_traceback_later(timeout_s, exit=True, file=sys.stderr)
    # Standard error may have no reader; then the kernel's alarm ends the process.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout_s + _DUMP_TIMEOUT_S)


def cancel_process_exit() -> None:
    """Take back `exit_process_within`."""
    faulthandler.cancel_dump_traceback_later()
    signal.setitimer(signal.ITIMER_REAL, 0)


def run_until_exit(serving: Coroutine[Any, Any, ResultT], exit_timeout_s: float = EXIT_TIMEOUT_S) -> ResultT:
    """Run a server under uvloop as the last thing this process does, then leave within `exit_timeout_s`."""

    async def serve_to_end() -> ResultT:
        try:
            return await serving
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            exit_process_within(exit_timeout_s)

    return uvloop.run(serve_to_end())


def exit_process(code: int) -> NoReturn:
    """Exit with `code` after threads and exit functions, as `sys.exit` does, but leave modules as they are.

    Taking torch apart takes a second and more. As the last thing of a process that served well.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or nobody reads it
            stream.flush()
    os._exit(code)


_SHUTDOWN_REPLY_S = 5.0
"""Time for requests that are ended at shutdown to say so."""
_HURRIED_WORDS_S = 0.5
"""The same after a second signal."""
_CLOSE_TIMEOUT_S = 30.0
"""Time after a signal for all but the drain."""
_POLL_S = 0.01
"""Between two looks whether connections have ended, for which uvicorn has no event."""

_ACCEPTS_PER_TURN = 16
"""libuv accepts one connection per listening descriptor and turn of the event loop. Under load a turn takes
10 ms and more, so that with one descriptor the last of a hundred clients would wait for a second.
"""


class CannotListenError(Exception):
    """The address cannot be listened on; the message says why."""


def bind_tcp(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Listen without Nagle's delay; port 0 takes a free one. Raises CannotListenError.

    `shared`: sockets of this user that are shared too may listen there beside it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or error
        raise CannotListenError(f"cannot listen on {host}:{port}: {why}") from None
    return listener


def bind_tcp_shared(host: str, port: int, count: int) -> list[socket.socket]:
    """Bind `count` listeners to one address, among which the kernel spreads connections by their addresses.

    The port must be free: another server that shares its port is no reason to join it. Raises
    CannotListenError.
    """
    if port:
        bind_tcp(host, port).close()
    first = bind_tcp(host, port, shared=True)
    return [first, *(bind_tcp(host, first.getsockname()[1], shared=True) for _ in range(count - 1))]


def is_loopback_host(host: str) -> bool:
    """Return whether a listener on `host` is reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind_unix(path: Path) -> socket.socket:
    """A listening Unix socket at a path where there is nothing yet. Raises CannotListenError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise CannotListenError(f"cannot listen at {path}: {error.strerror or error}") from None
    return listener


def listener_url(listener: socket.socket) -> str:
    """Return the URL at which clients reach the listener; of a Unix socket `unix:PATH`."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class AppServer:
    """An application on a listening socket, from `serve()` until `stop()`."""

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        *,
        drain_s: float,
        on_stop: Callable[[], None] = lambda: None,
        websockets: bool = False,
        limits: ServerLimits | None = None,
        counts: ServerCounts | None = None,
        handlers: DirectHandlers | None = None,
    ) -> None:
        """`on_stop` is called when it is asked to stop, before requests are given time to finish.

        `websockets`: whether they are spoken, where the package is installed. `limits`: what clients may
        send. `counts`: where it is counted how often a limit was met. `handlers`: of requests that are
        answered without ASGI; `app` answers those that they decline, or that come in pieces.
        """
        self._on_stop = on_stop
        self._drain_s = drain_s
        self._starting: asyncio.Task[Any] | None = None
        """The task that starts the application, until `serve`."""
        state = ConnectionState(limits or ServerLimits(), counts or ServerCounts())
        self.url = listener_url(listener)
        self._listener = listener
        self._server = _Server(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=partial(HttpProtocol, state=state, handlers=handlers),  # type: ignore[arg-type]
                loop="uvloop",
                ws=_create_websocket if websockets and find_spec("websockets") else "none",  # type: ignore[arg-type]
                ws_per_message_deflate=False,
                lifespan="off",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                log_config=None,
                timeout_keep_alive=state.limits.keep_alive_s,  # type: ignore[arg-type]
            ),
            state,
            listener,
            drain_s,
        )

    async def serve(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Call `on_ready`, answer requests until stopped, then give running ones `drain_s` to finish."""
        self._starting = None
        self._server.on_ready = on_ready
        copies = [self._listener.dup() for _ in range(_ACCEPTS_PER_TURN - 1)]
        await self._server.serve(sockets=[self._listener, *copies])

    @contextmanager
    def stopped_by_signals(
        self, on_first: Callable[[], None] = lambda: None, on_second: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Within it SIGINT and SIGTERM are `stop`, and cancel the block if that has not come to `serve` yet.

        A block that was cancelled by a signal ends without an error. `on_first` is called with the first
        signal, `on_second` with every other. A block that does not end in time after a signal ends with its
        process: see `exit_process_within`. Main thread only.
        """
        loop, self._starting = asyncio.get_running_loop(), asyncio.current_task()
        cancelled: asyncio.Task[Any] | None = None

        def stop() -> None:
            nonlocal cancelled
            again = self._server.should_exit
            (on_second if again else on_first)()
            exit_process_within(_CLOSE_TIMEOUT_S if again else self._drain_s + _CLOSE_TIMEOUT_S)
            self.stop()
            if self._starting is not None:
                cancelled = self._starting
                cancelled.cancel()
                self._listener.close()  # connected clients need not wait any longer

        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, stop)
        try:
            yield
        except asyncio.CancelledError:
            if cancelled is None:
                raise
            cancelled.uncancel()
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
            cancel_process_exit()

    async def add_listener(self, listener: socket.socket) -> None:
        """Accept connections on `listener` too, until `remove_listener` or the end. While it serves."""
        await self._server.add_listener(listener)

    def remove_listener(self, listener: socket.socket) -> None:
        """Accept no more connections on `listener`; those that were accepted go on."""
        self._server.remove_listener(listener)

    def stop_accepting(self) -> None:
        """Accept no more connections at all, and serve on until `stop`."""
        for server in self._server.servers:
            server.close()

    def stop(self) -> None:
        """Drain and end; called again, end at once."""
        if self._server.should_exit:
            self._server.force_exit = True
        self._server.ask_to_exit()
        self._on_stop()


def _create_websocket(**given: Any) -> asyncio.Protocol:
    """Create uvicorn's WebSocket protocol, imported with the first use."""
    from radixway.core.http.websocket_protocol import WebSocketProtocol

    return WebSocketProtocol(**given)


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handling, which raises signals again after a clean end."""

    on_ready: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self, config: uvicorn.Config, state: ConnectionState, listener: socket.socket, drain_s: float
    ) -> None:
        super().__init__(config)
        self._state = state
        self._listener = listener
        self._drain_s = drain_s
        self._added: dict[socket.socket, asyncio.Server] = {}
        self._exit_asked = asyncio.Event()

    def ask_to_exit(self) -> None:
        """End `main_loop`."""
        self.should_exit = True
        self._exit_asked.set()

    async def add_listener(self, listener: socket.socket) -> None:
        """Accept connections on a duplicate of `listener` too."""
        create_protocol = partial(
            self.config.http_protocol_class,  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        loop = asyncio.get_running_loop()
        server = await loop.create_server(create_protocol, sock=listener.dup(), backlog=self.config.backlog)
        self._added[listener] = server
        self.servers.append(server)

    def remove_listener(self, listener: socket.socket) -> None:
        """Close the duplicate of `listener`, if there is one; what waits there is another process's."""
        server = self._added.pop(listener, None)
        if server is not None:
            self.servers.remove(server)
            server.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_ready()

    async def main_loop(self) -> None:
        """Tick each second until asked to exit: uvicorn ticks each tenth, and exits only at a tick."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exit_asked.wait(), 1)

    async def on_tick(self, counter: int) -> bool:
        """Implement `uvicorn.Server`. Without files to open, libuv cuts off new clients, and is silent."""
        if self._listener.fileno() >= 0:
            try:
                os.close(os.dup(self._listener.fileno()))
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                self._state.warn_of_file_limit()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, let requests finish for `drain_s`, then end them with a reply."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        state = self.server_state
        for connection in tuple(state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                while (state.connections or state.tasks) and not self.force_exit:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
                for server in self.servers:
                    await server.wait_closed()
        tasks = set(state.tasks)
        if not tasks:
            return
        log.warning("ending %d requests that were not finished after %g s", len(tasks), self._drain_s)
        self._state.is_ending = True
        for task in tasks:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_HURRIED_WORDS_S if self.force_exit else _SHUTDOWN_REPLY_S):
                await asyncio.wait(tasks)
                while state.connections:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
