"""FastAPI's routes, of which only what matches a request is there before the first one comes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import compile_path

from radixway.core.http.asgi import Receive, Scope, Send

_compile_path = cache(compile_path)


class LazyRoute(APIRoute):
    """A route whose handler's parameters and models are read when it is first called, or described.

    A gateway has a hundred routes and is asked on a few; to read all took 30 ms of each start.
    """

    _answer: Callable[[Scope, Receive, Send], Any]

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        methods: set[str] | list[str] | None = None,
        include_in_schema: bool = True,
        name: str | None = None,
        **options: Any,
    ) -> None:
        """Take what `APIRoute` takes, and give it `options` when they are needed."""
        self.path = path
        self.endpoint = endpoint
        self.methods = {method.upper() for method in methods or ("GET",)}
        self.include_in_schema = include_in_schema
        self.name = name or endpoint.__name__
        self.path_regex, self.path_format, self.param_convertors = _compile_path(path)
        self.app = self._answer_request
        self._build = partial(
            super().__init__,
            path,
            endpoint,
            methods=self.methods,
            include_in_schema=include_in_schema,
            name=self.name,
            **options,
        )

    def __getattr__(self, name: str) -> Any:
        """Build the rest of the route when any of it is first asked for."""
        build = self.__dict__.pop("_build", None)
        if build is not None:
            app = self.app  # with what others have put around it
            build()
            self._answer, self.app = self.app, app
        return self.__getattribute__(name)

    async def _answer_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


class LazyRouter(APIRouter):
    """A router of lazy routes."""

    def __init__(self, **options: Any) -> None:
        """Take what `APIRouter` takes."""
        super().__init__(route_class=LazyRoute, **options)
