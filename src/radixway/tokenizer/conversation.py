"""From a chat request's fields to the prompt's text, for engines and routers that must agree with them."""

from collections.abc import Mapping, Sequence
from typing import Any

from radixway.tokenizer.messages import to_template_messages
from radixway.tokenizer.tokenizer import Tokenizer


def render_chat(
    tokenizer: Tokenizer,
    messages: Sequence[dict[str, Any]],
    *,
    tools: Sequence[dict[str, Any]] | None = None,
    tool_choice: Any = None,
    add_generation_prompt: bool | None = None,
    continue_final_message: bool | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> str:
    """The prompt of a chat request whose fields are as the client sent them; None where it left one out.

    To be encoded without special tokens: the template has written them. Raises TemplateError, which names
    the field at fault.
    """
    continues = bool(continue_final_message)
    return tokenizer.render(
        to_template_messages(messages, knows_developer=has_developer_role(tokenizer)),
        tools=None if tool_choice == "none" else tools,
        add_generation_prompt=not continues if add_generation_prompt is None else add_generation_prompt,
        continue_final_message=continues,
        arguments=arguments,
    )


def has_developer_role(tokenizer: Tokenizer) -> bool:
    """Does the chat template have a `developer` role of its own?"""
    template = tokenizer.chat_templates.get("default")
    return template is not None and "developer" in template.source
