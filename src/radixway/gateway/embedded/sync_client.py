"""Calls without an event loop: one of our own runs in a thread, and every call waits for it."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from radixway.core.net.task_cancellation import cancel_tasks
from radixway.gateway.embedded.asgi_exchange import closed_error
from radixway.gateway.embedded.async_client import AsyncRadixway, Headers, Stream, Task
from radixway.gateway.embedded.messages import Answer, Messages

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, which any other thread may give work to."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._process = os.getpid()
        self._closed = False
        self._giving = threading.Lock()  # no work is given to a loop that is stopping
        self._thread = threading.Thread(target=self._run_loop, daemon=True, name="radixway")
        self._thread.start()

    def run_coroutine(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. An interrupt while we wait cancels it.

        Raises RadixwayError when the thread has ended, or ends before the work does; RuntimeError where it
        could never be done: in a forked process, which has no such thread, and within that thread.
        """
        working = self._submit(work)
        try:
            return working.result()
        except concurrent.futures.CancelledError:
            if self._closed:
                raise closed_error() from None
            raise
        except BaseException:
            if not working.done():
                working.cancel()
            raise

    def stop_thread(self) -> None:
        """End the thread and its tasks."""
        if not self.is_own_process:
            return
        with self._giving:
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def is_own_process(self) -> bool:
        """Tell if this process has the thread: one that was forked from it has none."""
        return os.getpid() == self._process

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        try:
            if not self.is_own_process:
                raise RuntimeError("this Radixway was opened before a fork: open one in each process")
            if threading.current_thread() is self._thread:
                raise RuntimeError(
                    "this is Radixway's own event loop, which must not block: use `async with`"
                )
            with self._giving:
                if self._closed:
                    raise closed_error()
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise

    def _run_loop(self) -> None:
        loop = self._loop
        loop.run_forever()
        loop.run_until_complete(cancel_tasks(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


class SyncRadixway:
    """An open gateway for code that does not await. Made by `Radixway`; any thread may call it.

    Every method is the one of `AsyncRadixway` that has its name.
    """

    def __init__(
        self, inner: AsyncRadixway, thread: LoopThread, close: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._inner = inner
        self._thread = thread
        self._close = close
        self._closed = False
        atexit.register(self.close)  # or the interpreter would end below what is still open

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End running calls, the gateway and its thread."""
        # After a fork it is the other process's to close.
        if not self._closed and self._thread.is_own_process:
            self._closed = True
            atexit.unregister(self.close)
            try:
                self._thread.run_coroutine(self._close())
            finally:
                self._thread.stop_thread()

    def chat(self, messages: Messages, **more: Any) -> Answer:
        return self._thread.run_coroutine(self._inner.chat(messages, **more))

    def stream_chat(self, messages: Messages, **more: Any) -> SyncStream:
        return SyncStream(self._inner.stream_chat(messages, **more), self._thread)

    def complete(self, prompt: str | Sequence[Any], **more: Any) -> Answer:
        return self._thread.run_coroutine(self._inner.complete(prompt, **more))

    def stream_complete(self, prompt: str | Sequence[Any], **more: Any) -> SyncStream:
        return SyncStream(self._inner.stream_complete(prompt, **more), self._thread)

    def generate(self, **fields: Any) -> Answer:
        return self._thread.run_coroutine(self._inner.generate(**fields))

    def stream_generate(self, **fields: Any) -> SyncStream:
        return SyncStream(self._inner.stream_generate(**fields), self._thread)

    def explain(self, request_id: str) -> dict[str, Any]:
        return self._thread.run_coroutine(self._inner.explain(request_id))

    def classify(self, text: str, task: Task = "intent", **options: Any) -> dict[str, Any]:
        return self._thread.run_coroutine(self._inner.classify(text, task, **options))

    def call(self, method: str, path: str, body: Any = None, headers: Headers = None) -> Answer:
        return self._thread.run_coroutine(self._inner.call(method, path, body, headers))

    def stream(self, path: str, body: Mapping[str, Any], headers: Headers = None) -> SyncStream:
        return SyncStream(self._inner.stream(path, body, headers), self._thread)


class SyncStream:
    """`Stream` for `with` and `for`."""

    def __init__(self, stream: Stream, thread: LoopThread) -> None:
        self._stream = stream
        self._thread = thread

    @property
    def request_id(self) -> str:
        """Id for `explain`."""
        return self._stream.request_id

    @property
    def worker(self) -> str:
        """The worker that answers."""
        return self._stream.worker

    def __enter__(self) -> Self:
        self._thread.run_coroutine(self._stream.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """The next event, decoded."""
        try:
            return self._thread.run_coroutine(self._next_event())
        except _StreamOverError:
            raise StopIteration from None

    def texts(self) -> Iterator[str]:
        """Yield what each event adds to the text of the first choice."""
        added = self._stream.texts()

        async def following() -> str | None:
            return await anext(added, None)

        while (text := self._thread.run_coroutine(following())) is not None:
            yield text

    def close(self) -> None:
        """Leave."""
        self._thread.run_coroutine(self._stream.aclose())

    async def _next_event(self) -> Any:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:
            raise _StreamOverError from None


class _StreamOverError(Exception):
    """The stream has ended; a coroutine cannot say so by StopIteration."""


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ModuleNotFoundError:  # Windows has none
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
