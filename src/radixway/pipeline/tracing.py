"""How long the steps of a traced request take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from radixway.pipeline.reply import Reply
from radixway.pipeline.request import Request


def trace_step(
    name: str, step: Callable[[Request], Awaitable[Reply]]
) -> Callable[[Request], Awaitable[Reply]]:
    """The step, with its time noted on the request's trace: until its answer ends, where that is a stream."""

    async def timed(request: Request) -> Reply:
        journal = request.journal
        began_s = journal.elapsed_s()
        try:
            reply = await step(request)
        except BaseException as error:
            if journal.trace is not None:
                journal.trace.add_stage(
                    name, began_s, journal.elapsed_s(), holds=True, error=type(error).__name__
                )
            raise
        if journal.trace is not None:
            ended_s = journal.elapsed_s() if reply.chunks is None else None
            journal.trace.add_stage(name, began_s, ended_s, holds=True)
        return reply

    return timed
