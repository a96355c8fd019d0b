"""The pipeline: middlewares around a dispatch, composed once per endpoint.

Classes of users are loaded by dotted paths, ours also by the names that users of the Slime router know.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import isfunction, signature
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from radixway.core.config import Config, ConfigError
from radixway.core.pipeline.endpoints import Endpoint
from radixway.core.pipeline.reply import Reply
from radixway.core.pipeline.request import Request
from radixway.core.telemetry import HistogramBuckets, MetricsRegistry, StepMetrics
from radixway.core.telemetry.metrics.request_metrics import step_name_of

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer

log = logging.getLogger(__name__)

_Next = Callable[[Request], Awaitable[Reply]]


class TimedStep:
    """A middleware with what comes after it; its own times are counted in `times`.

    Of a stream it is the time until the reply began: reading it overlaps with the worker.
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
        before, began = request.inner_steps_s, perf_counter()
        try:
            return await self._call(request)
        finally:  # in place of what a dispatch within has added
            request.inner_steps_s = before + perf_counter() - began


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


RADIX_TREE = "radixway.trajectories.RadixTreeMiddleware"
"""The middleware that records trajectories."""


def import_class(path: str) -> type:
    """The middleware class at `package.module.Class`.

    Slime's own paths of its RadixTreeMiddleware name ours; slime need not be installed.

    Raises:
        ConfigError: the path names nothing, or nothing that could be a middleware.
    """
    module_name, _, name = resolve_slime_path(path).rpartition(".")
    try:
        found = getattr(import_module(module_name), name)
    except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as error:
        raise ConfigError(f"pipeline.middlewares: {path!r} cannot be loaded: {error}") from None
    if not isinstance(found, type) or not isfunction(found.__call__):
        raise ConfigError(f"pipeline.middlewares: {path!r} is no middleware: a class with its own __call__")
    return found


def is_asgi_middleware(middleware: type) -> bool:
    """Return whether it is built around an ASGI application, as Starlette's are, and not from `Services`."""
    if isfunction(getattr(middleware, "dispatch", None)):
        return True
    try:
        return "app" in signature(middleware).parameters
    except ValueError:  # some built in C have no signature to read
        return False


def resolve_slime_path(path: str) -> str:
    """Return the path of a class that users of Slime know by `path`; any other path is returned as it is."""
    package, _, rest = path.partition(".")
    slimes = package == "slime" and rest.rpartition(".")[2] == RADIX_TREE.rpartition(".")[2]
    return RADIX_TREE if slimes else path


Next = Callable[[Request], Awaitable[Reply]]


class Middleware(Protocol):
    """A step of the pipeline: look at the request, call `call_next` (once, never, or again), look at the
    reply.

    A middleware may have `applies_to(endpoint) -> bool`, asked once per endpoint: it is then in the chains of
    those alone whose capabilities it wants. It never goes by names, of which it would not know the next one.
    Metrics and spans call it by its class's name, or by its class attribute `step_name`. One with the class
    attribute `times_itself = True` counts its own time, and adds it to the request's `inner_steps_s`: that
    costs less than to be measured from outside.
    A class named in `pipeline.middlewares` is called once, with the gateway's `Services`, to build it."""

    async def __call__(self, request: Request, call_next: Next) -> Reply: ...


TokenizerOf = Callable[[str | None], Awaitable[tuple[str, "Tokenizer | None"]]]
"""Finds a model's name, where a request gives none, and its tokenizer, where there is one to be had here."""


@dataclass(frozen=True, slots=True)
class Services:
    """Parts of the gateway that a middleware may use."""

    config: Config
    metrics: MetricsRegistry
    tokenizer_of: TokenizerOf | None = None


class Pipeline:
    """Middlewares, outermost first, around `dispatch`."""

    def __init__(
        self, middlewares: Sequence[Middleware], dispatch: Next, steps: StepMetrics | None = None
    ) -> None:
        """`steps`: where it is counted how long each middleware takes, if anywhere.

        A `dispatch`, too, may have `times_itself`.
        """
        self._steps = steps
        self._middlewares = tuple(middlewares)
        self._dispatch = dispatch
        self._chains: dict[Endpoint, Next] = {}

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """Send the request down the chain of its endpoint."""
        return (self._chains.get(request.endpoint) or self.chain_of(request.endpoint))(request)

    def chain_of(self, endpoint: Endpoint) -> Next:
        """Return the middlewares that apply to `endpoint`, composed; called once at start."""
        chain = self._chains.get(endpoint)
        if chain is None:
            plain, with_spans = self._compose(endpoint), self._compose(endpoint, is_traced=True)

            def chain(request: Request) -> Awaitable[Reply]:
                return (with_spans if request.journal.is_traced else plain)(request)

            self._chains[endpoint] = chain
        return chain

    def _compose(self, endpoint: Endpoint, *, is_traced: bool = False) -> Next:
        chain: Next = self._dispatch
        if self._steps is not None and not _times_itself(self._dispatch):
            chain = TimedDispatch(self._dispatch)
        for middleware in reversed(self._middlewares):
            if _applies_to(middleware, endpoint):
                chain = partial(middleware, call_next=chain)
                if is_traced:
                    chain = trace_step(f"middleware {step_name_of(middleware)}", chain)
                if self._steps is not None and not _times_itself(middleware):
                    chain = TimedStep(chain, self._steps.middleware_buckets(middleware))
        return chain


def _times_itself(step: object) -> bool:
    return bool(getattr(step, "times_itself", False))


def _applies_to(middleware: Middleware, endpoint: Endpoint) -> bool:
    applies_to: Callable[[Endpoint], bool] | None = getattr(middleware, "applies_to", None)
    if applies_to is not None:
        return applies_to(endpoint)
    names: frozenset[str] | None = getattr(middleware, "surfaces", None)  # the older way of classes of users
    return names is None or endpoint.name in names


def load_middlewares(paths: Sequence[str], services: Services) -> list[Middleware]:
    """Build the middlewares named by dotted paths (`package.module.Class`), in that order.

    Classes that wrap ASGI applications are not among them: those stand around the gateway as a whole.

    Raises:
        ConfigError: a path that names nothing, or nothing that is or becomes a middleware.
    """
    loaded: list[Middleware] = []
    for path in paths:
        factory = import_class(path)
        if is_asgi_middleware(factory):
            continue
        if hasattr(factory, "surfaces") and not hasattr(factory, "applies_to"):
            log.warning(
                "pipeline.middlewares: %s lists its endpoints by name (`surfaces`), so it sees no new one:"
                " give it `applies_to(endpoint)` instead",
                path,
            )
        try:
            loaded.append(factory(services))
        except TypeError as error:
            raise ConfigError(
                f"pipeline.middlewares: {path!r} cannot be built from the gateway's services: {error}; "
                "a class takes those, or is Starlette's kind and takes (app, *, router)"
            ) from error
    return loaded
