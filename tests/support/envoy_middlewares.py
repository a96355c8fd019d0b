"""Middlewares that do to answers what makes Envoy's frames hard: hold back, stop, replace, fail."""

from __future__ import annotations

import asyncio

from starlette.middleware.base import BaseHTTPMiddleware

from radixway.core.pipeline import Chunks, GatewayError, Reply


class Mapped(Chunks):
    """A stream whose chunks are `change`d; None ends it early."""

    def __init__(self, chunks, change):
        self._chunks, self._change, self._ended = chunks, change, False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._ended:
            raise StopAsyncIteration
        try:
            chunk = self._change(await anext(self._chunks))
        except StopAsyncIteration:
            self._ended = True
            if (last := self._change(None)) is None:
                raise
            return last
        if chunk is None:
            self._ended = True
            return b"data: stopped\n\ndata: [DONE]\n\n"
        return chunk

    async def aclose(self):
        await self._chunks.aclose()


class Holding:
    """Keeps every chunk until the next has come."""

    def __init__(self, services):
        pass

    async def __call__(self, request, call_next):
        reply, held = await call_next(request), [b""]

        def late(chunk):
            held.append(chunk or b"")
            return held.pop(0)

        reply.chunks = Mapped(reply.chunks, late)
        return reply


class Peeking(Holding):
    """Reads the beginning of the stream before it answers, with a header that comes too late then."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        first = await anext(reply.chunks)
        reply.headers.append((b"x-seen", b"yes"))
        begun = iter([first])
        inner = reply.chunks

        class Again(Mapped):
            async def __anext__(self):
                return next(begun, None) or await anext(inner)

        reply.chunks = Again(inner, None)
        return reply


class Outer(BaseHTTPMiddleware):
    """Stands around the whole gateway."""

    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers["x-outer"] = "yes"
        return response


class Stopping(Holding):
    """Ends the stream after the first chunk."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        reply.chunks = Mapped(reply.chunks, lambda chunk: None)
        return reply


class Impatient(Holding):
    """Ends the stream while it waits for the second chunk."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        inner = reply.chunks

        class Two(Mapped):
            pulled = None

            async def __anext__(self):
                if self.pulled is None:
                    self.pulled = asyncio.create_task(anext(inner))
                    return await self.pulled
                if self._ended:
                    raise StopAsyncIteration
                self._ended = True
                self.pulled = asyncio.create_task(anext(inner))
                await asyncio.sleep(0)  # it begins
                return b"data: enough\n\n"

        reply.chunks = Two(inner, None)
        return reply


class Refusing(Holding):
    """Puts an answer of its own in place of what came."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        return Reply(403, [(b"content-type", b"text/plain"), (b"x-why", b"no")], reply.worker, b"refused")


class Renaming(Holding):
    """Changes body and headers of whole answers."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)
        reply.body = reply.body.replace(b"ok", b"better")
        reply.headers = [(b"content-type", b"application/json"), (b"x-two", b"a"), (b"x-two", b"b")]
        return reply


class Failing(Holding):
    """Has a defect."""

    async def __call__(self, request, call_next):
        raise ZeroDivisionError


class FailingLate(Holding):
    """Has one in the middle of the answer."""

    async def __call__(self, request, call_next):
        reply = await call_next(request)

        def fail(chunk):
            raise GatewayError("broken on purpose", code="late")

        reply.chunks = Mapped(reply.chunks, fail)
        return reply


class Waiting(Holding):
    """Never comes to an end."""

    async def __call__(self, request, call_next):
        await asyncio.Event().wait()


def with_(*middlewares: type) -> dict:
    """The section of a configuration that has them."""
    return {"pipeline": {"middlewares": [f"{__name__}.{each.__name__}" for each in middlewares]}}
