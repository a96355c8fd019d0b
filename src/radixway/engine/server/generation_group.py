"""The generations of one HTTP request, streamed or gathered."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from radixway.core.http.server_sent_events import DONE_EVENT
from radixway.engine.engine_request import RequestOutput
from radixway.engine.generation_stream import GenerationStream
from radixway.engine.server.http_exchange import HttpExchange


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
        """Return whether all generations are finished. Raises what ended one early."""
        done = [pump for pump in self._pumps if pump.done()]
        for pump in done:
            pump.result()
        return len(done) == len(self._pumps)

    async def gather_outputs(self) -> list[RequestOutput]:
        """Every generation's whole answer, as one output."""
        answers: dict[int, RequestOutput] = {}
        async for index, output in self:
            if index in answers:
                output.prepend_output(answers[index])
            answers[index] = output
        return [answers[index] for index in sorted(answers)]

    async def stream_events(
        self,
        exchange: HttpExchange,
        make_events: Callable[[int, RequestOutput], bytes],
        make_last_event: Callable[[], bytes] = lambda: b"",
        *,
        end: bytes = DONE_EVENT,
    ) -> None:
        """Send what `make_events` (index, its next output) makes of each output, until all are finished.

        `make_last_event` makes what comes after all of them, before `end`.
        """
        unfinished = len(self)
        async for index, output in self:
            unfinished -= output.finish is not None
            events = make_events(index, output)
            if not unfinished:
                await exchange.end_events(events + make_last_event() + end)
                return
            if events:
                await exchange.send_events(events)

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
            if (waiting := self._ready.get(index)) is not None:
                output.prepend_output(waiting)
            self._ready[index] = output
            self._arrived.set()
