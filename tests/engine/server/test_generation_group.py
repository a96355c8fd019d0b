"""Generations on their way to a client: nothing lost, nothing doubled, joined while the client is slow."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from radixway.engine.engine_request import FinishReason, RequestOutput
from radixway.engine.errors import EngineError
from radixway.engine.server.generation_group import GenerationGroup


class Told:
    """A generation that gives what it is told to, when it is told."""

    def __init__(self) -> None:
        self.request_id = "r"
        self.closed = False
        self._events: asyncio.Queue[RequestOutput | Exception] = asyncio.Queue()
        self._count = 0

    def say(self, text: str, *, last: bool = False) -> None:
        self._count += 1
        finish = FinishReason("length") if last else None
        self._events.put_nowait(RequestOutput("r", [self._count], [], text, finish, 1, 0, self._count, "v"))

    def fail(self, error: Exception) -> None:
        self._events.put_nowait(error)

    async def __aiter__(self) -> AsyncIterator[RequestOutput]:
        while True:
            event = await self._events.get()
            if isinstance(event, Exception):
                raise event
            yield event
            if event.finish:
                return

    async def aclose(self) -> None:
        self.closed = True


def answers_of(*generations: Told) -> tuple[GenerationGroup, list[None]]:
    first_tokens: list[None] = []
    return GenerationGroup(generations, lambda: first_tokens.append(None)), first_tokens  # type: ignore[arg-type]


async def test_outputs_come_one_by_one_to_a_fast_client() -> None:
    told = Told()
    answers, first_tokens = answers_of(told)
    told.say("a")
    texts = []
    async for index, output in answers:
        texts.append((index, output.text))
        told.say("b", last=len(texts) == 2)
    assert texts == [(0, "a"), (0, "b"), (0, "b")] and len(first_tokens) == 1


async def test_outputs_are_joined_while_the_client_is_slow() -> None:
    told = Told()
    answers, first_tokens = answers_of(told)
    outputs = []
    told.say("a")
    async for _, output in answers:
        outputs.append(output)
        if len(outputs) == 1:
            for text in ("b", "c"):
                told.say(text)
            told.say("d", last=True)
            await asyncio.wait(answers._pumps)
    assert [(output.text, output.token_ids) for output in outputs] == [("a", [1]), ("bcd", [2, 3, 4])]
    assert outputs[1].finish == FinishReason("length") and outputs[1].completion_tokens == 4
    assert len(first_tokens) == 1


async def test_several_generations_are_gathered_in_their_order() -> None:
    told = [Told(), Told(), Told()]
    answers, first_tokens = answers_of(*told)
    for number, one in reversed(list(enumerate(told))):
        one.say(f"{number}a")
        one.say(f"{number}b", last=True)
    assert [answer.text for answer in await answers.gather_outputs()] == ["0a0b", "1a1b", "2a2b"]
    assert len(first_tokens) == 3


@pytest.mark.parametrize("error", [EngineError("on fire"), RuntimeError("a defect")])
async def test_a_failure_comes_after_what_was_given_before_it(error: Exception) -> None:
    fine, broken = Told(), Told()
    answers, _ = answers_of(fine, broken)
    broken.say("half")
    broken.fail(error)
    fine.say("whole", last=True)
    texts = []
    with pytest.raises(type(error)):
        async for index, output in answers:
            texts.append((index, output.text))
    assert sorted(texts) == [(0, "whole"), (1, "half")]


async def test_a_failure_does_not_wait_for_those_that_go_on() -> None:
    endless, broken = Told(), Told()
    answers, _ = answers_of(endless, broken)
    broken.fail(EngineError("on fire"))
    with pytest.raises(EngineError):
        await answers.gather_outputs()
    await answers.aclose()


async def test_closing_ends_what_still_runs() -> None:
    told = [Told(), Told()]
    answers, _ = answers_of(*told)
    told[0].say("a")
    async for _ in answers:
        break
    await answers.aclose()
    assert all(one.closed for one in told)
