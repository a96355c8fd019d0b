"""What a house wants of every request, and what it wants to know of every answer."""

from __future__ import annotations

from radixway.core.pipeline import BadRequest, Chunks, Endpoint, Next, Reply, Request, Services

LONGEST = 256


class HouseRules:
    """Answers are bounded, one at a time, and greedy where nobody said otherwise."""

    def __init__(self, services: Services) -> None:
        """Built once; `services` has the configuration, the metrics, and models' tokenizers."""
        self._shortened = services.metrics.counter(
            "house_shortened_requests", "Requests that asked for longer answers than the house gives"
        )

    def applies_to(self, endpoint: Endpoint) -> bool:  # leave out to be called for all
        return endpoint.chooses_model

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        body = request.body
        if body.get("n") not in (None, 1):
            raise BadRequest("one answer at a time in this house", param="n")
        asked = body.get("max_tokens")
        if not isinstance(asked, int) or asked > LONGEST:
            request.edit(max_tokens=LONGEST)  # all other fields keep their bytes
            self._shortened().inc()
        if "temperature" not in body:
            request.edit(temperature=0)
        request.journal.add("house_rules", max_tokens=min(asked or LONGEST, LONGEST))  # in /explain
        return await call_next(request)


class CountEvents:
    """How many events an answer was streamed in, in the journal."""

    def __init__(self, services: Services) -> None:
        pass

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        reply = await call_next(request)
        if reply.chunks is not None:
            reply.chunks = Counted(reply.chunks, request)
        return reply


class Counted(Chunks):
    """Another stream's chunks, as they come."""

    def __init__(self, chunks: Chunks, request: Request) -> None:
        self._chunks = chunks
        self._request = request
        self._events = 0

    def __aiter__(self) -> Counted:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._request.journal.add("events", count=self._events)
            raise
        self._events += chunk.count(b"\n\n")
        return chunk

    async def aclose(self) -> None:
        await self._chunks.aclose()
