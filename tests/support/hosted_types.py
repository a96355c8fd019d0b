"""What the providers' own SDKs take for a request, an answer and an event of a stream.

| provider | requests | answers and events |
|---|---|---|
| anthropic | `anthropic.types.MessageCreateParams` | `Message`, `RawMessageStreamEvent` |
| openai, azure | `openai.types.chat.CompletionCreateParams` | `ChatCompletion`, `ChatCompletionChunk` |
| gemini | `google.genai.types`, which refuse unknown fields | `GenerateContentResponse` |
| bedrock | botocore's model of bedrock-runtime, by its `ParamValidator` | the same, by its frames |

A failed check is an AssertionError: a mistake of a test or of ours, not a refusal of the provider.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from anthropic.types import Message, MessageCountTokensParams, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParams
from botocore.eventstream import EventStreamBuffer
from botocore.model import OperationModel, Shape
from botocore.session import Session
from botocore.validate import ParamValidator
from google.genai import types as gemini
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

_PARAMS = {
    "anthropic": MessageCreateParams,
    "anthropic count": MessageCountTokensParams | None,
    "openai": CompletionCreateParams,
}
_MODELS = {
    "Message": Message,
    "RawMessageStreamEvent": RawMessageStreamEvent,
    "ChatCompletion": ChatCompletion,
    "ChatCompletionChunk": ChatCompletionChunk,
    "GenerateContentResponse": gemini.GenerateContentResponse,
    "EmbedContentResponse": gemini.EmbedContentResponse,
    "contents": list[gemini.Content],
    "systemInstruction": gemini.Content,
    "tools": list[gemini.Tool],
    "toolConfig": gemini.ToolConfig,
    "generationConfig": gemini.GenerationConfig,
}


def check_request(kind: str, body: dict[str, Any]) -> None:
    """Check the body of a chat completion's call to the provider `kind`."""
    match kind:
        case "anthropic":  # `temperature` and its like are of the version 2023-06-01, which its types are not
            later = {name: body[name] for name in body.keys() - {"temperature", "top_p", "top_k"}}
            _check(_params_adapter(kind), later, is_params=True)
        case "openai":
            _check(_params_adapter(kind), body, is_params=True)
        case "gemini":
            for name, value in body.items():
                _check(_model_adapter(name), value)
        case "bedrock":
            _check_shape({"modelId": "in the path", **body}, _bedrock_operation("Converse").input_shape)


def check_count(kind: str, body: dict[str, Any]) -> None:
    """Check the body of a call that has the provider `kind` count tokens."""
    match kind:
        case "anthropic":
            _check(_params_adapter("anthropic count"), body, is_params=True)
        case "gemini":  # documented, though the SDK gives `contents` alone
            (fields,) = body.values()
            assert fields.pop("model").startswith("models/")
            assert list(body) == ["generateContentRequest"]
            check_request(kind, fields)
        case "bedrock":
            _check_shape({"modelId": "in the path", **body}, _bedrock_operation("CountTokens").input_shape)


def check_embedding(body: dict[str, Any], reply: dict[str, Any]) -> None:
    """Check the body of Gemini's `batchEmbedContents`, and the answer to it."""
    for each in body["requests"]:
        assert each.keys() - {"outputDimensionality"} == {"model", "content"}
        _check(_model_adapter("systemInstruction"), each["content"])
    _check(_model_adapter("EmbedContentResponse"), reply)


def check_reply(kind: str, reply: dict[str, Any], operation: str = "Converse") -> None:
    """Check a whole answer of the provider `kind`; `operation`: Bedrock's."""
    names = {"anthropic": "Message", "gemini": "GenerateContentResponse", "openai": "ChatCompletion"}
    if kind == "bedrock":
        _check_shape(reply, _bedrock_operation(operation).output_shape)
    else:
        _check(_model_adapter(names[kind]), reply)


def check_event(kind: str, event: Any) -> None:
    """Check an event of a stream: its JSON, or a whole frame of Bedrock's."""
    names = {
        "anthropic": "RawMessageStreamEvent",
        "gemini": "GenerateContentResponse",
        "openai": "ChatCompletionChunk",
    }
    if kind == "bedrock":
        _check_frame(event)
    elif event.get("type") != "ping":  # which Anthropic's client takes out before
        _check(_model_adapter(names[kind]), event)


@cache
def _params_adapter(name: str) -> TypeAdapter[Any]:
    """Fields that the SDK does not name are refused."""
    return TypeAdapter(_PARAMS[name], config=ConfigDict(extra="forbid"))


@cache
def _model_adapter(name: str) -> TypeAdapter[Any]:
    assert name in _MODELS, f"{name} is no field of the request"
    return TypeAdapter(_MODELS[name])


def _check(adapter: TypeAdapter[Any], value: Any, *, is_params: bool = False) -> None:
    try:
        found = list(_read_all(adapter.validate_python(value)))
    except ValidationError as error:
        raise AssertionError(f"{error}\n{value}") from None
    # Anthropic's SDK takes blocks of answers too, and those with any field.
    assert not (is_params and any(isinstance(each, BaseModel) for each in found)), f"too many fields: {value}"


def _read_all(value: Any) -> Iterator[Any]:
    """Yield all in `value`: what the SDKs declare as iterable is checked as it is read."""
    yield value
    if isinstance(value, dict):
        value = value.values()
    if hasattr(value, "__iter__") and not isinstance(value, str | bytes | BaseModel):
        for each in value:
            yield from _read_all(each)


@cache
def _bedrock_operation(name: str) -> OperationModel:
    return Session().get_service_model("bedrock-runtime").operation_model(name)


def _check_shape(value: Any, shape: Shape) -> None:
    report = ParamValidator().validate(value, shape)
    assert not report.has_errors(), f"{report.generate_report()}\n{value}"


def _check_frame(frame: bytes) -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(frame)
    (message,) = buffer
    headers = message.headers
    kind = headers[":event-type" if headers[":message-type"] == "event" else ":exception-type"]
    events = _bedrock_operation("ConverseStream").output_shape.members["stream"].members
    _check_shape(json.loads(message.payload), events[kind])
