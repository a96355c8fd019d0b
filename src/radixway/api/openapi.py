"""The declared endpoints, which are served raw, in `/openapi.json`."""

from functools import cache
from typing import Any

import msgspec
from fastapi import FastAPI

from radixway.core.pipeline import ENDPOINTS, Endpoint
from radixway.core.pipeline.endpoints import SURFACE_ENDPOINTS

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


@cache
def query_parameters(query: type[msgspec.Struct]) -> dict[str, Any]:
    """Return `parameters` of an operation whose query is decoded into `query`, for `openapi_extra`.

    A field's description is its `Meta(description=…)`.
    """
    parameters: list[dict[str, Any]] = []
    fields = msgspec.json.schema_components([query])[1][query.__name__]["properties"]
    for name, field in fields.items():
        schema = field.get("anyOf", [field])[0] | field  # the other alternative is null
        text, default = schema.pop("description", ""), schema.pop("default", None)
        schema.pop("anyOf", None)
        if default is not None:
            schema["default"] = default
        parameters.append(
            {"name": name, "in": "query", "required": False, "schema": schema, "description": text}
        )
    return {"parameters": parameters}


@cache
def request_body(body: type[msgspec.Struct]) -> dict[str, Any]:
    """Return `requestBody` of an operation whose JSON is decoded into `body`, for `openapi_extra`."""
    schema = msgspec.json.schema_components([body])[1][body.__name__]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe_raw_paths(app: FastAPI) -> None:
    """Add the endpoints, with the fields that the gateway reads, to the OpenAPI document of `app`."""
    own = app.openapi

    def openapi() -> dict[str, Any]:
        document = own()
        endpoints = [*ENDPOINTS, *SURFACE_ENDPOINTS]
        if endpoints[0].path not in document["paths"]:
            schemas, components = msgspec.json.schema_components(
                [endpoint.body for endpoint in endpoints], ref_template="#/components/schemas/{name}"
            )
            for endpoint, schema in zip(endpoints, schemas, strict=True):
                for path in endpoint.paths:
                    operations = document["paths"].setdefault(path, {})
                    operations["post"] = _openapi_operation(endpoint, path, schema)
            document.setdefault("components", {}).setdefault("schemas", {}).update(components)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _openapi_operation(endpoint: Endpoint, path: str, schema: dict[str, Any]) -> dict[str, Any]:
    kind = "multipart/form-data" if endpoint.takes_forms else "application/json"
    ok: dict[str, Any] = {"application/json": {}}
    if endpoint.streams:
        ok["text/event-stream"] = {}
    operation: dict[str, Any] = {
        "operationId": path.strip("/").replace("/", "_").replace("{", "").replace("}", "") + "_post",
        "tags": ["answering"],
        "summary": path,
        "description": endpoint.description,
        "requestBody": {"required": True, "content": {kind: {"schema": schema}}},
        "responses": {"200": {"description": "The worker's own bytes.", "content": ok}}
        | {status: {"description": words} for status, words in _ERRORS.items()},
    }
    if endpoint.is_in_session:
        operation["parameters"] = [
            {"name": "session_id", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    return operation
