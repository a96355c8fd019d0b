"""The way a model writes its answers, as its chat template tells: how it calls tools and where it thinks."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from radixway.core.parsers.reasoning_text import CLOSES, OPENS, ThinkingPlace

ToolFamily = Literal["hermes", "llama3", "mistral", "pythonic"]
ThinkingStyle = Literal["qwen3", "deepseek_r1"]

MARKERS: dict[ToolFamily, tuple[str, ...]] = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "llama3": ("<|python_tag|>",),
    "mistral": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    "pythonic": (),
}
"""What must be in the text for the parser to see it, even where it is a special token."""


@dataclass(slots=True, frozen=True)
class ModelFamily:
    """The way one model writes, as far as is known; None: it calls no tools, it does not think."""

    tools: ToolFamily | None = None
    thinking: ThinkingStyle | None = None

    @classmethod
    def detect_family(
        cls,
        templates: Iterable[str],
        *,
        tools: ToolFamily | Literal["auto", "none"] = "auto",
        thinking: ThinkingStyle | Literal["auto", "none"] = "auto",
    ) -> "ModelFamily":
        """The family of a model with these chat templates (their sources), where an operator names none."""
        template = "\n".join(templates)
        return cls(
            detect_tool_family(template) if tools == "auto" else None if tools == "none" else tools,
            detect_thinking_style(template)
            if thinking == "auto"
            else None
            if thinking == "none"
            else thinking,
        )


def detect_tool_family(template: str) -> ToolFamily | None:
    """Return the way a model with this chat `template` writes tool calls; None if in no way that is known
    here.
    """
    if "<tool_call>" in template and "<function=" not in template and "<arg_key>" not in template:
        return "hermes"
    if "[TOOL_CALLS]" in template:
        return "mistral"
    if "func_name1(params_name1=" in template:
        return "pythonic"
    if "<|python_tag|>" in template or ("Environment: ipython" in template and '"parameters"' in template):
        return "llama3"
    return None


def detect_thinking_style(template: str) -> ThinkingStyle | None:
    """Return how a model with this chat `template` marks its thinking; None if it does not think."""
    if OPENS in template:
        return "qwen3"
    return "deepseek_r1" if CLOSES in template else None


def detect_thinking_place(style: ThinkingStyle | None, prompt: str, continued: str | None) -> ThinkingPlace:
    """Return the place where the answer to this prompt begins; `continued` is what of the message is there
    already.
    """
    if style is None:
        return "after"
    if continued is not None:
        return "inside" if continued.rfind(OPENS) > continued.rfind(CLOSES) else "after"
    prompt = prompt.rstrip()
    if prompt.endswith(OPENS):
        return "inside"
    if prompt.endswith(CLOSES):
        return "after"
    return "before" if style == "qwen3" else "inside"
