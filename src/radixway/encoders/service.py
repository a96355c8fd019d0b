"""Encoders off the event loop: a bounded queue, and threads that take one window of each text in turn."""

from __future__ import annotations

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

from radixway.encoders.encoding import Encoder, EncoderError, Encoding
from radixway.encoders.request import of_this_request

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[Encoder], Generator[None, None, T]]
"""What is to be done in a thread, with a pause wherever others may go on."""


class EncoderBusy(EncoderError):
    """As many texts wait as may; whoever asked goes on without."""


class EncoderClosed(EncoderError):
    """The service has been closed."""


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """One thing asked for."""

    work: Work[T]
    result: Future[T]
    steps: Generator[None, None, T] | None = None

    def advance(self, encoder: Encoder) -> Callable[[], None] | None:
        """Up to the next pause, or to the end: then what tells it to whoever awaits the result."""
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

    A text of many windows lets the others pass after each of its own. Whoever stops awaiting frees a place.
    """

    def __init__(self, load: Callable[[], Encoder], *, threads: int = 1, queue: int = 256) -> None:
        """`load` runs in a thread, once. `queue` bounds the texts that wait or are being read."""
        self._load = load
        self._bound = queue
        self._jobs: deque[_Job[Any]] = deque()
        self._running = 0
        self._changed = threading.Condition()
        self._loading = threading.Lock()
        self._encoder: Encoder | None = None
        self._failure: str | None = None
        self._started = self._closed = False
        names = [f"radixway-encoder-{number}" for number in range(threads)]
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]

    @property
    def encoder(self) -> Encoder | None:
        """What runs; None until it is loaded."""
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

    async def ready(self) -> Encoder:
        """The encoder, once it is loaded. Raises EncoderError where it cannot be."""
        return await self.run(_itself)

    async def encode(self, text: str, *, layers: Sequence[int] = ()) -> Encoding:
        """See `Encoder`. Within `OnePass`, a text that was asked for already is not read again.

        Raises EncoderBusy and EncoderClosed at once, EncoderError where loading failed.
        """
        encodings = of_this_request.get()
        if encodings is not None and encodings.service is self:
            return await encodings.encode(text, layers=layers)
        return await self.read(text, layers=layers)

    def is_asked_for(self, text: str) -> bool:
        """Whether this request has asked for `text` already: whoever asks again has it for nothing."""
        encodings = of_this_request.get()
        return encodings is not None and encodings.service is self and encodings.is_asked_for(text)

    async def read(self, text: str, *, layers: Sequence[int] = ()) -> Encoding:
        """The same, and reads it whoever else did."""
        return await self.run(lambda encoder: encoder.steps(text, layers=layers))

    async def run(self, work: Work[T]) -> T:
        """Anything else that keeps a core busy, in the same queue and threads, in turn with the texts."""
        job = _Job(work, Future[T]())
        self._submit(job)
        self.start()
        return await asyncio.wrap_future(job.result)

    def close(self) -> None:
        """The threads end after the window they are at; what waits is told EncoderClosed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._fail_all(EncoderClosed("the encoder was closed"))

    async def aclose(self) -> None:
        """The same, and waits until the threads have ended."""
        self.close()
        if self._started:
            await asyncio.to_thread(self._join)

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _submit(self, job: _Job[Any]) -> None:
        with self._changed:
            if self._closed:
                raise EncoderClosed("the encoder was closed")
            if self._failure is not None:
                raise EncoderError(self._failure)
            if self.waiting >= self._bound:
                self._jobs = deque(waiting for waiting in self._jobs if not waiting.result.cancelled())
            if self.waiting >= self._bound:
                raise EncoderBusy(f"{self._bound} texts wait for the encoder already (encoders.queue)")
            self._jobs.append(job)
            self._changed.notify()

    def _work(self) -> None:
        encoder = self._loaded()
        while encoder is not None and (job := self._next()) is not None:
            tell = job.advance(encoder)
            with self._changed:
                self._running -= 1
                if tell is None and self._closed:
                    tell = partial(job.fail, EncoderClosed("the encoder was closed"))
                elif tell is None and not job.result.cancelled():
                    self._jobs.append(job)
                    self._changed.notify()
            if tell is not None:  # after its place is free, so that whoever is told can take it
                tell()

    def _loaded(self) -> Encoder | None:
        with self._loading:
            if self._encoder is None and self._failure is None:
                try:
                    self._encoder = self._load()
                except EncoderError as error:
                    self._give_up(str(error))
                except Exception as error:
                    log.exception("the encoder cannot be loaded")
                    self._give_up(f"the encoder cannot be loaded: {error}")
        return self._encoder

    def _give_up(self, why: str) -> None:
        log.warning("texts are not read: %s", why)
        with self._changed:
            self._failure = why
        self._fail_all(EncoderError(why))

    def _next(self) -> _Job[Any] | None:
        """The job that has waited longest; None when there will be none."""
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


def _itself(encoder: Encoder) -> Generator[None, None, Encoder]:
    yield from ()
    return encoder
