"""The generations that one HTTP request asked for, as they come, and gathered."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from radixway.engine.engine_request import FinishReason, RequestOutput, TokenLogprob
from radixway.engine.generation_stream import GenerationStream


@dataclass(slots=True)
class GatheredOutput:
    """The sum of the outputs of one generation so far."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish: FinishReason | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    host_tokens: int = 0
    disk_tokens: int = 0
    remote_tokens: int = 0
    completion_tokens: int = 0
    weight_version: str = ""
    weight_changes: tuple[tuple[int, str], ...] = ()
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)

    def append_output(self, output: RequestOutput) -> None:
        """Append one step's output."""
        self.text += output.text
        self.token_ids += output.token_ids
        self.logprobs += output.logprobs
        self.finish = output.finish
        self.prompt_tokens = output.prompt_tokens
        self.cached_tokens = output.cached_tokens
        self.host_tokens = output.host_tokens
        self.disk_tokens = output.disk_tokens
        self.remote_tokens = output.remote_tokens
        self.completion_tokens = output.completion_tokens
        self.weight_version = output.weight_version
        self.weight_changes = output.weight_changes
        self.prompt_logprobs += output.prompt_logprobs

    @property
    def cached_by_tier(self) -> dict[str, int]:
        """Cached tokens by the tier of the cache they came from."""
        device = self.cached_tokens - self.host_tokens - self.disk_tokens
        return {"device": device, "host": self.host_tokens, "disk": self.disk_tokens}

    @property
    def weight_versions(self) -> list[dict[str, Any]]:
        """Which version of the weights made its tokens [start, end), as SGLang tells it: none left out."""
        changes = self.weight_changes or ((0, self.weight_version),)
        ends = [*(start for start, _ in changes[1:]), self.completion_tokens]
        return [
            {"version": version, "start": start, "end": end}
            for (start, version), end in zip(changes, ends, strict=True)
        ]


class GenerationGroup:
    """Iterate over (index of the generation, its next output) until every generation has finished.

    What a generation gives while its last output is still being sent comes as one output, so that a slow
    reader costs fewer and larger writes. Raises EngineError when the engine fails, after all that it gave.
    `first_token` is called at the first token of each generation.
    """

    def __init__(self, generations: Sequence[GenerationStream], first_token: Callable[[], None]) -> None:
        self._generations = generations
        self._first_token = first_token
        self._pumps: list[asyncio.Task[None]] = []
        self._arrived = asyncio.Event()
        self._ready: dict[int, RequestOutput] = {}

    def __len__(self) -> int:
        return len(self._generations)

    async def __aiter__(self) -> AsyncIterator[tuple[int, RequestOutput]]:
        for index, generation in enumerate(self._generations):
            pump = asyncio.create_task(self._pump_outputs(index, generation))
            pump.add_done_callback(lambda _: self._arrived.set())
            self._pumps.append(pump)
        while self._ready or not self._is_finished():
            await self._arrived.wait()
            self._arrived.clear()
            ready, self._ready = self._ready, {}
            for arrived in ready.items():
                yield arrived

    def _is_finished(self) -> bool:
        """Whether every generation has; raises what ended one before its time."""
        done = [pump for pump in self._pumps if pump.done()]
        for pump in done:
            pump.result()
        return len(done) == len(self._pumps)

    async def gather_outputs(self) -> list[GatheredOutput]:
        """Every generation's whole answer."""
        answers = [GatheredOutput() for _ in self._generations]
        async for index, output in self:
            answers[index].append_output(output)
        return answers

    async def aclose(self) -> None:
        """End every generation that still runs."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for generation in self._generations:
            await generation.aclose()

    async def _pump_outputs(self, index: int, generation: GenerationStream) -> None:
        async for output in generation:
            if output.completion_tokens == len(output.token_ids) > 0:
                self._first_token()
            waiting = self._ready.get(index)
            self._ready[index] = output if waiting is None else _merge_outputs(waiting, output)
            self._arrived.set()


def _merge_outputs(first: RequestOutput, second: RequestOutput) -> RequestOutput:
    """Two outputs of one generation as one."""
    return replace(
        second,
        token_ids=first.token_ids + second.token_ids,
        logprobs=first.logprobs + second.logprobs,
        text=first.text + second.text,
        prompt_logprobs=[*first.prompt_logprobs, *second.prompt_logprobs],
    )
