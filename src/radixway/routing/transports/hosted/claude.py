"""What Anthropic's own API and Bedrock's have in common: how Claude thinks, and why it stops."""

import re
from typing import Any

from radixway.core.protocols.request import field_error
from radixway.routing.transports.hosted.chat_body import ChatBody

STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
"""OpenAI's reasons; the last two are Bedrock's own."""
_OLDER = re.compile(r"claude-(?:instant|v?[23]|[a-z]+-4(?!-[7-9]))")
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}


def takes_sampling(model: str) -> bool:
    """Return whether `model` takes `temperature`, `top_p`, `top_k` and a budget of thought.

    Claude refuses them from Opus 4.7 and from the fifth generation on.
    """
    return "claude" not in model or _OLDER.search(model) is not None


def convert_thinking(chat: ChatBody, model: str) -> dict[str, Any]:
    """Return `thinking` and `output_config` as `chat` wants the `model` to think. Raises BadBodyError."""
    given = chat.fields.get("thinking")
    if given is not None:
        if not isinstance(given, dict) or not isinstance(given.get("budget_tokens", 0), int):
            raise field_error("thinking", 'must be like {"type": "enabled", "budget_tokens": 1024}')
        return {"thinking": given}
    budget = chat.reasoning_tokens
    if not budget:
        return {}
    if takes_sampling(model):
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    effort = _EFFORTS.get(str(chat.fields["reasoning_effort"]), "medium")
    return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
