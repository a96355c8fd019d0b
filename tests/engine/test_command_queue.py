"""Asking the engine thread: answers, refusals and failures come back, and nobody waits for ever."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from radixway.engine.command_queue import CommandQueue
from radixway.engine.errors import EngineError, EngineStoppedError


def refuse() -> None:
    raise EngineError("not now")


def fail() -> None:
    raise ZeroDivisionError


class Worker:
    """Does what is in an inbox in a thread of its own, until it is told to stop; keeps what it met."""

    def __init__(self) -> None:
        self.inbox = CommandQueue()
        self.met: list[Exception] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while (task := self.inbox.next_command()) is not None:
            try:
                task()
            except Exception as error:  # noqa: BLE001
                self.met.append(error)
        self.inbox.close_queue()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.inbox.put_command(None)
    made.thread.join()


def test_an_answer_comes_back_to_who_asked(worker: Worker) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: worker.inbox.call_and_wait(lambda: i * i), range(100)))
    assert answers == [i * i for i in range(100)] and not worker.met


def test_a_refusal_concerns_only_who_asked_a_failure_everyone(worker: Worker) -> None:
    with pytest.raises(EngineError, match="not now"):
        worker.inbox.call_and_wait(refuse)
    assert not worker.met
    with pytest.raises(ZeroDivisionError):
        worker.inbox.call_and_wait(fail)
    assert worker.inbox.call_and_wait(lambda: len(worker.met)) == 1


def test_who_waits_when_the_thread_ends_is_told_so() -> None:
    worker = Worker()
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait()

    worker.inbox.put_command(slow)
    begun.wait()
    worker.inbox.put_command(None)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(worker.inbox.call_and_wait, lambda: 1)
        while len(worker.inbox) < 2:
            pass
        go_on.set()
        with pytest.raises(EngineStoppedError):
            late.result()
    worker.thread.join()
    with pytest.raises(EngineStoppedError):
        worker.inbox.call_and_wait(lambda: 1)
