"""Encoders off the event loop: a bounded queue, and threads that take one window of each text in turn."""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from radixway.semantics.encoders.base import EncoderError, TextEncoder, TextEncoding
from radixway.semantics.encoders.request_encodings import of_this_request

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[TextEncoder], Generator[None, None, T]]
"""Work for a thread, with a pause wherever others may go on."""


class EncoderBusyError(EncoderError):
    """The queue of texts is full; callers go on without an encoding."""


class EncoderClosedError(EncoderError):
    """The service has been closed."""


@dataclass(slots=True, eq=False)
class _EncoderJob(Generic[T]):
    work: Work[T]
    result: Future[T]
    steps: Generator[None, None, T] | None = None

    def advance(self, encoder: TextEncoder) -> Callable[[], None] | None:
        """Run to the next pause, or to the end: then return what reports the result to its waiter."""
        try:
            if self.steps is None:
                self.steps = self.work(encoder)
            next(self.steps)
        except StopIteration as done:
            return partial(self.succeed, done.value)
        except Exception as error:  # noqa: BLE001 - it is theirs who asked
            return partial(self.fail, error)
        return None

    def succeed(self, value: T) -> None:
        with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
            self.result.set_result(value)

    def fail(self, error: Exception) -> None:
        with contextlib.suppress(InvalidStateError):
            self.result.set_exception(error)


class EncoderService:
    """Threads start with the first text, or with `start()`. Awaited from any event loop.

    A text of many windows lets the others pass after each of its own. A cancelled waiter frees its place.
    """

    def __init__(self, load: Callable[[], TextEncoder], *, threads: int = 1, queue: int = 256) -> None:
        """`load` runs in a thread, once. `queue` bounds the texts that wait or are being read."""
        self._load = load
        self._bound = queue
        self._jobs: deque[_EncoderJob[Any]] = deque()
        self._running = 0
        self._changed = threading.Condition()
        self._loading = threading.Lock()
        self._encoder: TextEncoder | None = None
        self._failure: str | None = None
        self._started = self._closed = False
        names = [f"radixway-encoder-{number}" for number in range(threads)]
        self._threads = [threading.Thread(target=self._run_jobs, name=name, daemon=True) for name in names]

    @property
    def encoder(self) -> TextEncoder | None:
        """Return the encoder; None until it is loaded."""
        return self._encoder

    @property
    def failure(self) -> str | None:
        """Why there is no encoder, and will be none."""
        return self._failure

    @property
    def waiting(self) -> int:
        """Texts that wait or are being read."""
        return len(self._jobs) + self._running

    def start(self) -> None:
        """Load now and not with the first text; does not wait for it."""
        with self._changed:
            if self._started or self._closed:
                return
            self._started = True
        for thread in self._threads:
            thread.start()

    async def wait_until_ready(self) -> TextEncoder:
        """Return the encoder, once it is loaded. Raises EncoderError where it cannot be."""
        return await self.run_work(_return_encoder)

    async def encode(self, text: str, *, layers: Sequence[int] = ()) -> TextEncoding:
        """See `TextEncoder`. Within `EncodeOnceMiddleware`, a text that was asked for already is not read
        again.

        Raises EncoderBusyError and EncoderClosedError at once, EncoderError where loading failed.
        """
        encodings = of_this_request.get()
        if encodings is not None and encodings.service is self:
            return await encodings.encode(text, layers=layers)
        return await self.encode_unshared(text, layers=layers)

    def is_asked_for(self, text: str) -> bool:
        """Return whether this request has asked for `text` already: repeated requests are free."""
        encodings = of_this_request.get()
        return encodings is not None and encodings.service is self and encodings.is_asked_for(text)

    async def encode_unshared(self, text: str, *, layers: Sequence[int] = ()) -> TextEncoding:
        """Encode `text`, even if this request has read it already."""
        return await self.run_work(lambda encoder: encoder.encode_steps(text, layers=layers))

    async def run_work(self, work: Work[T]) -> T:
        """Anything else that keeps a core busy, in the same queue and threads, in turn with the texts."""
        job = _EncoderJob(work, Future[T]())
        self._submit_job(job)
        self.start()
        return await asyncio.wrap_future(job.result)

    def close(self) -> None:
        """End the threads after the window they are at; what waits gets EncoderClosedError."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._fail_all(EncoderClosedError("the encoder was closed"))

    async def aclose(self) -> None:
        """Close, and wait until the threads have ended."""
        self.close()
        if self._started:
            await asyncio.to_thread(self._join_threads)

    def _join_threads(self) -> None:
        for thread in self._threads:
            thread.join()

    def _submit_job(self, job: _EncoderJob[Any]) -> None:
        with self._changed:
            if self._closed:
                raise EncoderClosedError("the encoder was closed")
            if self._failure is not None:
                raise EncoderError(self._failure)
            if self.waiting >= self._bound:
                self._jobs = deque(waiting for waiting in self._jobs if not waiting.result.cancelled())
            if self.waiting >= self._bound:
                raise EncoderBusyError(f"{self._bound} texts wait for the encoder already (encoders.queue)")
            self._jobs.append(job)
            self._changed.notify()

    def _run_jobs(self) -> None:
        encoder = self._load_encoder()
        while encoder is not None and (job := self._next_job()) is not None:
            tell = job.advance(encoder)
            with self._changed:
                self._running -= 1
                if tell is None and self._closed:
                    tell = partial(job.fail, EncoderClosedError("the encoder was closed"))
                elif tell is None and not job.result.cancelled():
                    self._jobs.append(job)
                    self._changed.notify()
            if tell is not None:  # after its place is free, so that the waiter can take it
                tell()

    def _load_encoder(self) -> TextEncoder | None:
        with self._loading:
            if self._encoder is None and self._failure is None:
                try:
                    self._encoder = self._load()
                except EncoderError as error:
                    self._fail_loading(str(error))
                except Exception as error:
                    log.exception("the encoder cannot be loaded")
                    self._fail_loading(f"the encoder cannot be loaded: {error}")
        return self._encoder

    def _fail_loading(self, why: str) -> None:
        log.warning("texts are not encoded: %s", why)
        with self._changed:
            self._failure = why
        self._fail_all(EncoderError(why))

    def _next_job(self) -> _EncoderJob[Any] | None:
        """Return the oldest job; None after the last."""
        with self._changed:
            while not self._closed:
                while self._jobs:
                    job = self._jobs.popleft()
                    if not job.result.cancelled():
                        self._running += 1
                        return job
                self._changed.wait()
        return None

    def _fail_all(self, error: EncoderError) -> None:
        with self._changed:
            jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job.fail(error)


def _return_encoder(encoder: TextEncoder) -> Generator[None, None, TextEncoder]:
    yield from ()
    return encoder
