"""Commands for the engine thread, run between two steps, and their results."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from radixway.engine.errors import EngineError, EngineStoppedError

T = TypeVar("T")


class CommandQueue:
    """Tasks from any thread, taken by the engine thread in the order they came."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._pending: set[Future[object]] = set()

    def __len__(self) -> int:
        return self._tasks.qsize()

    def put_command(self, task: Callable[[], None] | None) -> None:
        """Leave a task; None: stop."""
        self._tasks.put(task)

    def next_command(self) -> Callable[[], None] | None:
        """The next task, as soon as there is one."""
        return self._tasks.get()

    def call_and_wait(self, work: Callable[[], T]) -> T:
        """Have `work` done and wait for what it returns or raises: up to a step.

        A refusal (EngineError) is raised here only; whatever else it raises, the engine thread meets too.
        Raises `EngineStoppedError` if the thread ends before. Must not be called in the engine thread.
        """
        future: Future[T] = Future()

        def task() -> None:
            try:
                future.set_result(work())
            except EngineError as error:
                future.set_exception(error)
            except Exception as error:
                future.set_exception(error)
                raise

        with self._lock:
            if self._closed:
                raise EngineStoppedError("the engine is not running")
            self._pending.add(future)  # type: ignore[arg-type]
            self._tasks.put(task)
        try:
            return future.result()
        finally:
            with self._lock:  # `close_queue` may be looking through them
                self._pending.discard(future)

    def close_queue(self) -> None:
        """Close the queue; waiting callers get an error."""
        with self._lock:
            self._closed = True
            waiting = [future for future in self._pending if not future.done()]
        for future in waiting:
            future.set_exception(EngineStoppedError("the engine was stopped"))
