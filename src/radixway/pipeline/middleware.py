"""The onion: middlewares around a dispatch, composed once per surface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from radixway.config import Config, ConfigError
from radixway.pipeline.dotted import find_class, wraps_apps
from radixway.pipeline.reply import Reply
from radixway.pipeline.request import Request
from radixway.pipeline.timed import TimedEnd, TimedStep
from radixway.pipeline.tracing import traced
from radixway.telemetry import Metrics, Steps

if TYPE_CHECKING:
    from radixway.tokenizer import Tokenizer

Next = Callable[[Request], Awaitable[Reply]]


class Middleware(Protocol):
    """One step of the road: look at the request, ask `call_next` (once, never, or again), look at the reply.

    A middleware may carry a class attribute `surfaces: frozenset[str]`; it is then called for those alone.
    A class named in `pipeline.middlewares` is called once, with the gateway's `Services`, to build it.
    """

    async def __call__(self, request: Request, call_next: Next) -> Reply: ...


TokenizerOf = Callable[[str | None], Awaitable[tuple[str, "Tokenizer | None"]]]
"""Finds a model's name, where a request gives none, and its tokenizer, where there is one to be had here."""


@dataclass(frozen=True, slots=True)
class Services:
    """What a middleware may use of the gateway."""

    config: Config
    metrics: Metrics
    tokenizer_of: TokenizerOf | None = None


class Pipeline:
    """Middlewares, outermost first, around `dispatch`."""

    def __init__(self, middlewares: Sequence[Middleware], dispatch: Next, steps: Steps | None = None) -> None:
        """`steps`: where it is counted how long each middleware takes, if anywhere."""
        self._steps = steps
        self._middlewares = tuple(middlewares)
        self._dispatch = dispatch
        self._roads: dict[str, Next] = {}
        self._traced_roads: dict[str, Next] = {}

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """Send the request down the road of its surface."""
        surface, is_traced = request.surface, request.journal.is_traced
        roads = self._traced_roads if is_traced else self._roads
        return (roads.get(surface) or self._lay(surface, is_traced=is_traced))(request)

    def _lay(self, surface: str, *, is_traced: bool) -> Next:
        steps = self._steps
        road: Next = self._dispatch if steps is None else TimedEnd(self._dispatch)
        for middleware in reversed(self._middlewares):
            if _subscribes(middleware, surface):
                road = partial(middleware, call_next=road)
                if is_traced:
                    road = traced(f"middleware {_name_of(middleware)}", road)
                if steps is not None:
                    road = TimedStep(road, steps.of(middleware))
        (self._traced_roads if is_traced else self._roads)[surface] = road
        return road


def _subscribes(middleware: Middleware, surface: str) -> bool:
    subscribed: frozenset[str] | None = getattr(middleware, "surfaces", None)
    return subscribed is None or surface in subscribed


def _name_of(middleware: Middleware) -> str:
    return getattr(middleware, "__name__", type(middleware).__name__)


def load_middlewares(paths: Sequence[str], services: Services) -> list[Middleware]:
    """Build the middlewares named by dotted paths (`package.module.Class`), in that order.

    Classes that wrap ASGI applications are not among them: those stand around the gateway as a whole.

    Raises:
        ConfigError: a path that names nothing, or nothing that is or becomes a middleware.
    """
    loaded: list[Middleware] = []
    for path in paths:
        factory = find_class(path)
        if wraps_apps(factory):
            continue
        try:
            loaded.append(factory(services))
        except TypeError as error:
            raise ConfigError(
                f"pipeline.middlewares: {path!r} cannot be built from the gateway's services: {error}; "
                "a class takes those, or is Starlette's kind and takes (app, *, router)"
            ) from error
    return loaded
