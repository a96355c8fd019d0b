"""Endpoints: how their bodies are read, and the OpenAPI document that says so."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import update_wrapper
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from radixway._version import __version__
from radixway.core.http import BadBodyError, decode_json, decode_query
from radixway.core.protocols.anthropic import MessagesBody
from radixway.core.protocols.responses import ResponsesBody
from radixway.engine.server.chat_completions import ChatCompletionBody
from radixway.engine.server.completions import TextCompletionBody
from radixway.engine.server.engine_service import EngineService
from radixway.engine.server.generate import GenerateRequestBody
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.tgi_stream import TgiStreamBody
from radixway.engine.server.weight_routes import TensorUpdateBody

B = TypeVar("B", bound=msgspec.Struct)

EndpointHandler: TypeAlias = Callable[[EngineService, HttpExchange, bytes], Awaitable[None]]
"""Answers a request; the last argument is its body."""


class BodyEndpoint(Generic[B]):
    """An endpoint whose body is JSON of `body`, of `max_bytes` at most.

    Without a body, `takes_query` reads the fields from the query, and `is_optional` takes the defaults.
    """

    def __init__(
        self,
        body: type[B],
        handler: Callable[[EngineService, HttpExchange, B], Awaitable[None]],
        *,
        takes_query: bool = False,
        is_optional: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        self.body = body
        self._handler = handler
        self._takes_query = takes_query
        self._default = b"{}" if is_optional else b""
        self._max_bytes = max_bytes
        self._decoder = msgspec.json.Decoder(body)
        update_wrapper(self, handler)

    async def __call__(self, service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
        if self._max_bytes is not None and len(raw) > self._max_bytes:
            message = f"the body is larger than the {self._max_bytes} bytes that this endpoint reads"
            raise BadBodyError(message, status=413, code="body_too_large")
        if self._takes_query and not raw:
            body = decode_query(exchange.query, self.body)
        else:
            body = decode_json(self._decoder, raw or self._default)
        await self._handler(service, exchange, body)


_QUEUED = (
    GenerateRequestBody,
    TgiStreamBody,
    TextCompletionBody,
    ChatCompletionBody,
    MessagesBody,
    ResponsesBody,
)
_TENSOR_UPDATE = "/update_weights_from_tensor"
_TAGS = (
    (
        "answering",
        (
            "/v1/chat",
            "/v1/completions",
            "/v1/messages",
            "/v1/responses",
            "/v1/score",
            "/generate",
            "/invocations",
        ),
    ),
    ("weights", ("/update_", "/get_weight", "/weight_")),
    ("tokens", ("/tokenize", "/tokenizer_info", "/detokenize", "/v1/tokenize", "/v1/detokenize")),
    ("operating", ("/pause", "/continue", "/abort", "/flush", "/reset", "/prefetch", "/concate")),
)


def describe_routes(routes: Mapping[str, Mapping[str, EndpointHandler]]) -> dict[str, Any]:
    """The document of these routes, the endpoints of each by method: descriptions are docstrings."""
    endpoints = [endpoint for methods in routes.values() for endpoint in methods.values()]
    bodies = {TensorUpdateBody: None} | {
        body: None for each in endpoints if (body := getattr(each, "body", None)) is not None
    }
    schemas, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(bodies, schemas, strict=True))
    paths: dict[str, Any] = {}
    for path, methods in routes.items():
        for method, endpoint in methods.items():
            if method == "HEAD":
                continue
            body = TensorUpdateBody if path == _TENSOR_UPDATE else getattr(endpoint, "body", None)
            operation: dict[str, Any] = {
                "operationId": f"{endpoint.__name__}_{path.strip('/').replace('/', '_')}_{method.lower()}",
                "tags": [next((tag for tag, roots in _TAGS if path.startswith(roots)), "looking")],
                "summary": path,
                "description": inspect.cleandoc(endpoint.__doc__ or ""),
                "responses": _describe_responses(path, body),
            }
            if method != "GET" and body is not None:
                content = {"application/json": {"schema": schema_of[body]}}
                if path == _TENSOR_UPDATE:
                    content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
                operation["requestBody"] = {"content": content}
            paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Radixway engine", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def _describe_responses(path: str, body: type[msgspec.Struct] | None) -> dict[str, Any]:
    media = "text/plain" if path == "/metrics" else "application/json"
    responses: dict[str, Any] = {"200": {"description": "", "content": {media: {}}}}
    if body is not None:
        responses["400"] = {"description": "The body is wrong; `param` names the field."}
        if body in _QUEUED:
            responses["200"]["content"]["text/event-stream"] = {}
        if issubclass(body, _QUEUED) and "token" not in path:
            responses["429"] = {"description": "The queue is full."}
            responses["503"] = {"description": "The engine has stopped, or is shutting down."}
    return responses
