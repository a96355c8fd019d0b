"""The generations that one HTTP request asked for, as they come, and gathered."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from radixway.engine.engine import Generation
from radixway.engine.errors import EngineError
from radixway.engine.request import FinishReason, Output, TokenLogprob


@dataclass(slots=True)
class Answer:
    """All that one generation has given so far: the sum of its outputs."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish: FinishReason | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    weight_version: str = ""

    def add(self, output: Output) -> None:
        """Append one step's output."""
        self.text += output.text
        self.token_ids += output.token_ids
        self.logprobs += output.logprobs
        self.finish = output.finish
        self.prompt_tokens = output.prompt_tokens
        self.cached_tokens = output.cached_tokens
        self.completion_tokens = output.completion_tokens
        self.weight_version = output.weight_version


class Answers:
    """Iterate over (index of the generation, its next output) until every generation has finished.

    Raises EngineError when the engine fails. `first_token` is called at the first token of each generation.
    """

    def __init__(self, generations: Sequence[Generation], first_token: Callable[[], None]) -> None:
        self._generations = generations
        self._first_token = first_token
        self._pumps: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._generations)

    async def __aiter__(self) -> AsyncIterator[tuple[int, Output]]:
        if len(self._generations) == 1:
            async for output in self._generations[0]:
                self._note(output)
                yield 0, output
            return
        arrived: _Arrivals = asyncio.Queue()
        self._pumps = [
            asyncio.create_task(_pump(index, generation, arrived))
            for index, generation in enumerate(self._generations)
        ]
        unfinished = len(self._pumps)
        while unfinished:
            index, event = await arrived.get()
            if event is None:
                unfinished -= 1
            elif isinstance(event, EngineError):
                raise event
            else:
                self._note(event)
                yield index, event

    async def aclose(self) -> None:
        """End every generation that still runs."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for generation in self._generations:
            await generation.aclose()

    async def gather(self) -> list[Answer]:
        """Every generation's whole answer."""
        answers = [Answer() for _ in self._generations]
        async for index, output in self:
            answers[index].add(output)
        return answers

    def _note(self, output: Output) -> None:
        if output.completion_tokens == len(output.token_ids) > 0:
            self._first_token()


_Arrivals: TypeAlias = "asyncio.Queue[tuple[int, Output | EngineError | None]]"


async def _pump(index: int, generation: Generation, arrived: _Arrivals) -> None:
    """Move one generation's outputs to the common queue; None says that it has finished."""
    try:
        async for output in generation:
            arrived.put_nowait((index, output))
        arrived.put_nowait((index, None))
    except EngineError as error:
        arrived.put_nowait((index, error))
