"""Timers of pipeline steps: the time of each step without the steps it calls, and spans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter

from radixway.core.pipeline.reply import Reply
from radixway.core.pipeline.request import Request
from radixway.core.telemetry import HistogramBuckets

_Next = Callable[[Request], Awaitable[Reply]]


class TimedStep:
    """A middleware with what comes after it; its own times are counted in `times`.

    Of a stream it is what it took till the reply began: whoever reads the stream works beside the worker.
    """

    __slots__ = ("_call", "_times")

    def __init__(self, call: _Next, times: HistogramBuckets) -> None:
        self._call = call
        self._times = times

    async def __call__(self, request: Request) -> Reply:
        """Pass `request` on and return the reply."""
        before, request.inner_steps_s, began = request.inner_steps_s, 0.0, perf_counter()
        try:
            return await self._call(request)
        finally:
            took_s = perf_counter() - began
            self._times.observe_value(max(0.0, took_s - request.inner_steps_s))
            request.inner_steps_s = before + took_s


class TimedDispatch:
    """The dispatch at the end of the pipeline, whose time is not that of any step."""

    __slots__ = ("_call",)

    def __init__(self, call: _Next) -> None:
        self._call = call

    async def __call__(self, request: Request) -> Reply:
        """Pass `request` on and return the reply."""
        began = perf_counter()
        try:
            return await self._call(request)
        finally:
            request.inner_steps_s += perf_counter() - began


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
