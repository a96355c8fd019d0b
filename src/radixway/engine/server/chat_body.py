"""The body of a chat completion, and the prompt it makes."""

from dataclasses import dataclass
from typing import Any

from radixway.engine.server.sampling import SamplingBody, unsupported_field_error
from radixway.engine.server.service import EngineService
from radixway.engine.server.tools import parse_tool_use
from radixway.tokenizer import render_chat
from radixway.web import BadBodyError


class ChatCompletionBody(SamplingBody, kw_only=True):
    """The request."""

    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: Any = None
    function_call: Any = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: Any = None
    chat_template_kwargs: dict[str, Any] | None = None
    separate_reasoning: bool | None = None


@dataclass(slots=True, frozen=True)
class ChatPrompt:
    """A conversation as the model reads it."""

    text: str
    ids: list[int]


async def render_chat_prompt(
    service: EngineService, body: ChatCompletionBody, *, body_bytes: int, must_fit: bool = True
) -> ChatPrompt:
    """The conversation through the template.

    Raises BadBodyError (400) or TemplateError for what cannot be said so, and for a conversation too long
    for the context, unless it need not fit.
    """
    if body.messages is None:
        raise BadBodyError("messages: missing", param="messages", code="missing_field")
    if body.chat_template is not None:
        raise unsupported_field_error("chat_template", "in a request")
    for name in ("functions", "function_call"):
        if getattr(body, name):
            raise unsupported_field_error(name, "(deprecated: give tools and tool_choice)")
    tokenizer = service.tokenizer
    parse_tool_use(body.tools, body.tool_choice)

    def render_and_encode() -> ChatPrompt:
        text = render_chat(
            tokenizer,
            body.messages or [],
            tools=body.tools,
            tool_choice=body.tool_choice,
            add_generation_prompt=body.add_generation_prompt,
            continue_final_message=body.continue_final_message,
            arguments=body.chat_template_kwargs,
        )
        if must_fit:
            service.check_length(text, "messages")
        return ChatPrompt(text, tokenizer.encode(text, add_special_tokens=False))

    prompt = await service.run_off_loop(render_and_encode, characters=body_bytes)
    service.check_token_ids(prompt.ids, "messages")
    return prompt
