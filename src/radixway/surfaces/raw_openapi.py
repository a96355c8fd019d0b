"""What is served raw has its place in `/openapi.json`, too: completions, and calls of agents."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI

from radixway.surfaces.generate import GenerateBody
from radixway.surfaces.openai import ChatBody, CompletionBody

_BODIES = {"/v1/chat/completions": ChatBody, "/v1/completions": CompletionBody, "/generate": GenerateBody}

_MEANT = {
    "/v1/chat/completions": "A conversation's answer, whole or streamed. `model: auto` leaves it open.",
    "/v1/completions": "What follows a prompt, whole or streamed.",
    "/generate": "SGLang's: text or token ids in, both out; `return_logprob` and the rest travel on.",
}
_AGENTS = {
    "/sessions/{session_id}/v1/chat/completions": "OpenAI's chat completions, recorded as a session's.",
    "/sessions/{session_id}/v1/completions": "OpenAI's completions, recorded likewise.",
    "/sessions/{session_id}/v1/responses": "OpenAI's responses, recorded likewise.",
    "/sessions/{session_id}/v1/messages": "Anthropic's messages, recorded likewise.",
}
_ERRORS = {
    "400": "The body is wrong; `error.param` names the field.",
    "401": "Tenants have keys, and this is none.",
    "404": "No worker serves the model.",
    "413": "The body is over `gateway.max_body_bytes`.",
    "429": "Workers are busy, or a limit of the tenant is used up; `error.code` names it.",
    "502": "Every worker that was asked failed before its first byte.",
    "503": "No worker can answer now.",
    "504": "`gateway.request_timeout_s` passed.",
}


def describe_raw(app: FastAPI) -> None:
    """`app` tells of these paths, too, with the fields that the gateway itself reads; all others travel on.

    Nothing is made before somebody asks.
    """
    own = app.openapi

    def openapi() -> dict[str, Any]:
        document = own()
        if not document["paths"].keys() & _MEANT.keys():
            schemas, components = msgspec.json.schema_components(
                _BODIES.values(), ref_template="#/components/schemas/{name}"
            )
            for path, schema in zip(_BODIES, schemas, strict=True):
                document["paths"][path] = {"post": _operation(path, _MEANT[path], schema)}
            for path, meant in _AGENTS.items():
                operation = _operation(path, meant, {"type": "object"})
                operation["parameters"] = [
                    {"name": "session_id", "in": "path", "required": True, "schema": {"type": "string"}}
                ]
                document["paths"][path] = {"post": operation}
            document.setdefault("components", {}).setdefault("schemas", {}).update(components)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _operation(path: str, meant: str, schema: dict[str, Any]) -> dict[str, Any]:
    ok: dict[str, Any] = {"application/json": {}, "text/event-stream": {}}
    return {
        "operationId": path.strip("/").replace("/", "_").replace("{", "").replace("}", "") + "_post",
        "tags": ["answering"],
        "summary": path,
        "description": meant,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {"200": {"description": "The worker's own bytes.", "content": ok}}
        | {status: {"description": words} for status, words in _ERRORS.items()},
    }
