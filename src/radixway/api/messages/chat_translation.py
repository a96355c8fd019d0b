"""A request for Anthropic's messages as one for a chat completion."""

from typing import Any

import msgspec

from radixway.core.pipeline import CHAT_COMPLETIONS, Request
from radixway.core.protocols import NormalizedRequest

_OF_ANTHROPIC = frozenset(
    {"service_tier", "container", "mcp_servers", "context_management", "betas", "inference_geo", "speed"}
)
"""Fields that workers of chat completions do not know."""


def build_chat_request(request: Request, ask: NormalizedRequest) -> Request:
    """Return the chat completion that answers `ask`, which `request` brought; it shares the journal."""
    sampling = ask.chat_sampling
    schema = sampling.pop("json_schema", None)
    body: dict[str, Any] = {name: value for name, value in ask.extra.items() if name not in _OF_ANTHROPIC}
    body |= sampling
    body |= {"model": request.model, "messages": ask.messages, "stream": ask.stream}
    if ask.tools is not None:
        body |= {"tools": ask.tools, "parallel_tool_calls": ask.parallel_tool_calls}
    if ask.tool_choice is not None:
        body["tool_choice"] = ask.tool_choice
    if schema is not None:
        named = {"name": "answer", "schema": msgspec.Raw(schema.encode()), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    if ask.template_arguments:
        body["chat_template_kwargs"] = ask.template_arguments
    if ask.continue_final_message:
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    if ask.stream:
        body["stream_options"] = {"include_usage": True}
    if request.claimed_user is not None:
        body["user"] = request.claimed_user
    if request.model is None:
        del body["model"]
    _, mark, query = request.path.partition("?")
    return request.copy(
        endpoint=CHAT_COMPLETIONS,
        path=f"{CHAT_COMPLETIONS.path}{mark}{query}",
        raw=msgspec.json.encode(body),
        _body=None,
        _parsed=None,
        _parsed_raw=None,
    )
