"""Asking a worker for tokens: only one that has them to give, in bounds, and never twice for the same."""

import asyncio

import pytest

from radixway.routing.prompt_tokens import TokenizeRefusedError, TokenizeTimeoutError
from radixway.routing.worker import KvEventsState, KvEventsStatus
from routing.test_prompt_reader import CHAT, IDS, Reader, blocks_of, worker


class Asked:
    """A worker that answers with `IDS`, or fails."""

    def __init__(self, failure=None) -> None:
        self.failure = failure
        self.questions = []

    async def __call__(self, worker, question):
        self.questions.append((worker.name, question))
        if self.failure is not None:
            raise self.failure
        return IDS


async def test_a_worker_is_asked_once_for_the_same_prompt():
    asked = Asked()
    reader = Reader(ask=asked, tokenize={"ask_workers": "always"})
    workers = [worker("has", tokenizes=True), worker("lacks")]
    for _ in range(2):
        found = await reader.read(CHAT, workers=workers)
        assert (found.source, found.tokens, found.tokenized) == ("worker", 64, True)
        assert found.blocks == blocks_of(IDS)
    ((name, question),) = asked.questions
    assert name == "has" and b'"model":"m"' in question and b'"messages":' in question
    assert (await reader.read(CHAT, workers=workers[1:])).source == "text"


async def test_the_least_busy_is_asked():
    asked = Asked()
    busy, idle = worker("busy", tokenizes=True), worker("idle", tokenizes=True)
    busy.load.requests = 3
    await Reader(ask=asked, tokenize={"ask_workers": "always"}).read(CHAT, workers=[busy, idle])
    assert asked.questions[0][0] == "idle"


@pytest.mark.parametrize(
    ("failure", "reason", "pause_s"),
    [(TokenizeTimeoutError(), "worker_silent", 10.0), (TokenizeRefusedError(), "worker_refused", 5.0)],
)
async def test_a_worker_that_fails_is_left_alone_for_a_while(failure, reason, pause_s):
    asked = Asked(failure)
    reader = Reader(ask=asked, tokenize={"ask_workers": "always"})
    workers = [worker(tokenizes=True)]
    found = await reader.read(CHAT, workers=workers)
    assert (found.source, found.fallback) == ("text", reason)
    reader.now += pause_s - 1
    assert (await reader.read(CHAT, workers=workers)).fallback is None
    assert (await reader.read({"prompt": "text"}, workers=workers)).fallback == reason  # another surface
    assert len(asked.questions) == 2
    reader.now += 1.5
    asked.failure = None
    assert (await reader.read(CHAT, workers=workers)).source == "worker"
    assert reader.fallbacks == [reason, reason]


async def test_no_more_are_asked_at_a_time_than_are_answered_soon():
    answers = asyncio.Event()
    asking: asyncio.Queue[bytes] = asyncio.Queue()

    async def slow(worker, question):
        asking.put_nowait(question)
        await answers.wait()
        return IDS

    reader = Reader(ask=slow, tokenize={"ask_workers": "always"})
    workers = [worker(tokenizes=True)]
    tasks = [asyncio.create_task(reader.read({"prompt": f"prompt {n}"}, workers=workers)) for n in range(40)]
    for _ in range(16):
        await asking.get()
    tasks[0].cancel()  # its place is free again
    await asyncio.wait(tasks[:1])
    late = asyncio.create_task(reader.read({"prompt": "late"}, workers=workers))
    await asking.get()
    answers.set()
    sources = [(await task).source for task in [*tasks[1:], late]]
    assert sources.count("worker") == 16 and sources.count("text") == 24


async def test_no_worker_is_asked_if_the_operator_says_so():
    asked = Asked()
    reader = Reader(ask=asked, tokenize={"ask_workers": "never"})
    assert (await reader.read(CHAT, workers=[worker(tokenizes=True)])).source == "text"
    assert not asked.questions


async def test_workers_are_asked_by_default_while_somebodys_events_are_followed():
    asked = Asked()
    reader = Reader(ask=asked)
    workers = [worker("tells", tokenizes=True), worker("publishes")]
    assert (await reader.read(CHAT, workers=workers)).source == "text"
    workers[1].kv_events = KvEventsStatus(KvEventsState.FOLLOWING)
    assert (await reader.read(CHAT, workers=workers)).source == "worker"
    assert [name for name, _ in asked.questions] == ["tells"]


async def test_a_worker_that_is_gone_is_forgotten():
    asked = Asked(TokenizeTimeoutError())
    reader = Reader(ask=asked, tokenize={"ask_workers": "always"})
    gone = worker(tokenizes=True)
    await reader.read(CHAT, workers=[gone])
    reader.reader.remove_worker(gone)
    await reader.read(CHAT, workers=[gone])
    assert len(asked.questions) == 2
