"""The body of `POST /v1/responses`, checked to the last field."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from radixway.api.chats.responses.shapes import build_items
from radixway.chat.ids import digest_request
from radixway.chat.stored_responses import ResponseItems
from radixway.core.protocols import NormalizedRequest
from radixway.core.protocols.request import SamplingFields, field_error, shorten_value
from radixway.core.protocols.responses import LOGPROBS, ResponsesAdapter

_wire = ResponsesAdapter(stateful=True)

_IGNORED_FIELDS = frozenset(
    {"max_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier"}
)
"""Published fields that change nothing here: the server has no tools of its own and one tier."""
_SUPPORTED_VALUES: dict[str, tuple[Any, ...]] = {
    "service_tier": ("auto", "default"),
    "truncation": ("disabled",),
}
"""Fields of which only these values, and null, are supported."""
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_DELIVERY_FIELDS = frozenset({"stream", "stream_options"})
_INCLUDABLE = frozenset(
    {
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        LOGPROBS,
        "message.input_image.image_url",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
    }
)
_TO_WORKERS = (*SamplingFields.__struct_fields__, "stop", "user", "safety_identifier")
"""Fields that chat completions share under the same name."""


@dataclass(frozen=True, slots=True)
class ResponseCreateParams:
    """The body of a request for a response."""

    ask: NormalizedRequest
    items: ResponseItems
    request: dict[str, Any]
    """Its other fields, as they came."""

    @property
    def is_stored(self) -> bool:
        """Return whether anything of it is kept."""
        return self.request.get("store") is not False

    @property
    def is_background(self) -> bool:
        """Return whether it goes on without its client."""
        return bool(self.request.get("background"))

    def digest_request(self) -> str:
        """Return a digest of the request, the same however its answer is delivered."""
        fields = {name: value for name, value in self.ask.body.items() if name not in _DELIVERY_FIELDS}
        return digest_request("responses", fields)

    @property
    def conversation_id(self) -> str | None:
        """The conversation that it belongs to."""
        given = self.request.get("conversation")
        named: str | None = given["id"] if isinstance(given, dict) else given
        return named


def parse_create_params(raw: bytes) -> ResponseCreateParams:
    """Parse and check a `raw` body. Raises BadBodyError (400) naming the field at fault."""
    ask = _wire.parse_request(raw)
    for name, value in ask.extra.items():
        if name not in _IGNORED_FIELDS and name not in _SUPPORTED_VALUES:
            raise field_error(name, "is not known here", code="unknown_parameter")
        if name == "safety_identifier" and not isinstance(value, str | None):
            raise field_error(name, "must be a string")
    for name, supported in _SUPPORTED_VALUES.items():
        value = ask.body.get(name)
        if value is not None and value not in supported:
            choices = " or ".join(map(str, supported))
            raise field_error(
                name, f"only {choices} is supported, not {shorten_value(value)}", code="unsupported"
            )
    check_storable_text(ask.body)
    _check_literal_fields(ask.body)
    check_metadata(ask.body.get("metadata"))
    request = {name: value for name, value in ask.body.items() if name != "input" and value is not None}
    return ResponseCreateParams(ask, build_items(ask.body.get("input") or []), request)


def chat_completion_fields(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of chat completions for a checked `request`, all but model and messages."""
    ask = _wire.parse_request(msgspec.json.encode({**request, "input": "-"}))
    fields = {name: request[name] for name in _TO_WORKERS if request.get(name) is not None}
    if ask.max_tokens is not None:
        fields["max_tokens"] = ask.max_tokens
    if ask.tools:
        fields |= {"tools": ask.tools, "tool_choice": ask.tool_choice}
        if not ask.parallel_tool_calls:
            fields["parallel_tool_calls"] = False
    if ask.top_logprobs is not None:
        fields |= {"logprobs": True, "top_logprobs": ask.top_logprobs}
    if ask.template_arguments:
        fields["chat_template_kwargs"] = ask.template_arguments
    effort = (request.get("reasoning") or {}).get("effort")
    if effort is not None:
        fields["reasoning_effort"] = effort
    form = (request.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        schema = {name: value for name, value in form.items() if name != "type" and value is not None}
        fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", **schema}}
    elif form.get("type") == "json_object":
        fields["response_format"] = {"type": "json_object"}
    return fields


def check_metadata(metadata: Any) -> dict[str, str]:
    """Check `metadata`: 16 pairs, names of 64 characters, values of 512 at most. Raises BadBodyError."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise field_error("metadata", f"must be an object, not {shorten_value(metadata)}")
    if len(metadata) > 16:
        raise field_error("metadata", f"has at most 16 pairs, not {len(metadata)}")
    for name, value in metadata.items():
        if not name or len(name) > 64:
            raise field_error(f"metadata.{name[:64]}", "names have 1 to 64 characters")
        if not isinstance(value, str) or len(value) > 512:
            raise field_error(f"metadata.{name}", "values are strings of at most 512 characters")
    return metadata


def _check_literal_fields(body: Mapping[str, Any]) -> None:
    if body.get("background") and body.get("store") is False:
        raise field_error("background", "needs `store`: what is not kept cannot be fetched later")
    if body.get("conversation") is not None:
        if body.get("previous_response_id") is not None:
            raise field_error("conversation", "and previous_response_id exclude each other")
        given = body["conversation"]
        if not isinstance(given["id"] if isinstance(given, dict) and "id" in given else given, str):
            raise field_error("conversation", "must be a conversation's id")
    for index, name in enumerate(body.get("include") or ()):
        if name not in _INCLUDABLE:
            raise field_error(
                f"include[{index}]", f"{shorten_value(name)} is not supported", code="unsupported"
            )
    reasoning, text = body.get("reasoning") or {}, body.get("text") or {}
    if reasoning.get("effort") not in (None, *_EFFORTS):
        given = shorten_value(reasoning["effort"])
        raise field_error("reasoning.effort", f"must be one of {', '.join(_EFFORTS)}, not {given}")
    for name in ("summary", "generate_summary"):
        if reasoning.get(name) not in (None, "auto"):
            raise field_error(f"reasoning.{name}", "reasoning is not summarized", code="unsupported")
    if text.get("verbosity") not in (None, "medium"):
        raise field_error("text.verbosity", "only medium is supported", code="unsupported")


def check_storable_text(value: Any, place: str = "") -> None:
    """Raise BadBodyError (400), naming the `place`, for U+0000 in `value`, which PostgreSQL cannot store."""
    if isinstance(value, str) and "\x00" in value:
        raise field_error(place, "text cannot hold U+0000")
    if isinstance(value, dict):
        for name, item in value.items():
            at = f"{place}.{name}" if place else name
            check_storable_text(name, at.replace("\x00", ""))
            check_storable_text(item, at)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check_storable_text(item, f"{place}[{index}]")
