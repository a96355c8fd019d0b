"""The engine's OpenAPI: paths as routed, what they are for from docstrings, bodies from their structs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from radixway._version import __version__
from radixway.engine.server.chat_completions import ChatCompletionBody
from radixway.engine.server.completions import TextCompletionBody
from radixway.engine.server.generate import ConcatenateBody
from radixway.engine.server.generate_body import GenerateRequestBody
from radixway.engine.server.prefetch import PrefetchBody
from radixway.engine.server.status import AbortBody
from radixway.engine.server.tokenize import DetokenizeBody, TokenizeBody
from radixway.engine.server.weight_routes import (
    DiskUpdateBody,
    PauseBody,
    TensorUpdateBody,
    WeightQueryBody,
    WeightVersionBody,
)

_BODIES: dict[str, type[msgspec.Struct]] = {
    "/v1/chat/completions": ChatCompletionBody,
    "/v1/completions": TextCompletionBody,
    "/generate": GenerateRequestBody,
    "/prefetch": PrefetchBody,
    "/concate_and_append_request": ConcatenateBody,
    "/tokenize": TokenizeBody,
    "/v1/tokenize": TokenizeBody,
    "/detokenize": DetokenizeBody,
    "/v1/detokenize": DetokenizeBody,
    "/abort_request": AbortBody,
    "/pause_generation": PauseBody,
    "/update_weights_from_disk": DiskUpdateBody,
    "/update_weights_from_tensor": TensorUpdateBody,
    "/update_weight_version": WeightVersionBody,
    "/get_weights_by_name": WeightQueryBody,
}
_PLAIN_TEXT = frozenset({"/metrics"})
_TAGS = (
    ("answering", ("/v1/chat", "/v1/completions", "/generate")),
    ("weights", ("/update_", "/get_weight", "/weight_")),
    ("tokens", ("/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize")),
    ("operating", ("/pause", "/continue", "/abort", "/flush", "/prefetch", "/concate")),
)


def describe_routes(routes: Mapping[str, Mapping[str, Callable[..., Any]]]) -> dict[str, Any]:
    """The document of these routes, the endpoints of each by method."""
    bodies = dict.fromkeys(_BODIES.values())
    schemas, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(bodies, schemas, strict=True))
    paths: dict[str, Any] = {}
    for path, methods in routes.items():
        for method, endpoint in methods.items():
            if method == "HEAD":
                continue
            operation: dict[str, Any] = {
                "operationId": f"{endpoint.__name__}_{path.strip('/').replace('/', '_')}_{method.lower()}",
                "tags": [next((tag for tag, roots in _TAGS if path.startswith(roots)), "looking")],
                "summary": path,
                "description": inspect.cleandoc(endpoint.__doc__ or ""),
                "responses": _describe_responses(path),
            }
            if method != "GET" and path in _BODIES:
                content = {"application/json": {"schema": schema_of[_BODIES[path]]}}
                if path == "/update_weights_from_tensor":
                    content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
                operation["requestBody"] = {"content": content}
            paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Radixway engine", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def _describe_responses(path: str) -> dict[str, Any]:
    media = "text/plain" if path in _PLAIN_TEXT else "application/json"
    told: dict[str, Any] = {"200": {"description": "", "content": {media: {}}}}
    if path in _BODIES:
        told["400"] = {"description": "The body is wrong; `param` names the field."}
        if (
            issubclass(_BODIES[path], GenerateRequestBody | TextCompletionBody | ChatCompletionBody)
            and "tokenize" not in path
        ):
            told["200"]["content"]["text/event-stream"] = {}
            told["429"] = {"description": "The queue is full."}
            told["503"] = {"description": "The engine has stopped, or is shutting down."}
    return told
