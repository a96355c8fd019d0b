"""Categories' system prompts: injected into conversations, shown and switched while the gateway runs."""

from dataclasses import replace
from typing import Any

import msgspec

from radixway.bundled import read_toml
from radixway.core.config.semantic import BilingualText, CategoryConfig
from radixway.core.config.semantic.models import PromptMode
from radixway.semantics.decisions.snapshot import SemanticSnapshot
from radixway.semantics.signals.question import content_text

SHIPPED_PROMPTS = {name: BilingualText(**texts) for name, texts in read_toml("system_prompts.toml").items()}
_SYSTEM_ROLES = ("system", "developer")
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def inject_system_prompt(
    messages: msgspec.Raw | bytes, prompt: str, mode: PromptMode
) -> list[msgspec.Raw] | None:
    """Return the messages with `prompt` in front; all but the first keep their bytes.

    `replace`: a system message that begins the conversation becomes the prompt. `insert`: the prompt goes
    before what that message says, after it a blank line. None where nothing is to be done: there is no
    prompt, the mode is `off`, or the messages begin with the prompt already.
    """
    if mode == "off" or not prompt:
        return None
    parts = _split(messages)
    first = _decode(parts[0]) if parts else {}
    if first.get("role") not in _SYSTEM_ROLES:
        return [_encode_message({"role": "system", "content": prompt}), *parts]
    content = first.get("content")
    text = content_text(content).strip()
    if text.startswith(prompt.strip()):
        return None
    if mode == "replace" or not text:
        new: Any = prompt
    elif isinstance(content, list):
        new = [{"type": "text", "text": prompt + "\n\n"}, *content]
    else:
        new = f"{prompt}\n\n{content}"
    return [_encode_message({**first, "content": new}), *parts[1:]]


def _encode_message(message: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(message))


def category_prompt(category: CategoryConfig, shipped: bool) -> str | BilingualText:
    """Return the prompt of `category`; where it has none and `shipped` ones are wanted, the shipped one."""
    if category.system_prompt or not shipped:
        return category.system_prompt
    return SHIPPED_PROMPTS.get(category.labels()[0], BilingualText())


def describe_prompts(snapshot: SemanticSnapshot) -> list[dict[str, Any]]:
    """Return every category with its prompt, whether it is given to models, and how."""
    return [_describe_prompt(each, snapshot.section.shipped_prompts) for each in snapshot.categories.values()]


def switch_prompts(
    snapshot: SemanticSnapshot, category: str | None, enabled: bool | None, mode: PromptMode | None
) -> SemanticSnapshot:
    """Switch the prompt of one `category`, or of all, on or off, or its mode; None leaves it as it is.

    Raises KeyError for a category that there is not.
    """
    if category is not None and category not in snapshot.categories:
        raise KeyError(category)
    change: dict[str, Any] = {}
    if enabled is not None:
        change["system_prompt_enabled"] = enabled
    if mode is not None:
        change["system_prompt_mode"] = mode
    categories = {
        name: config.model_copy(update=change) if category in (None, name) else config
        for name, config in snapshot.categories.items()
    }
    own = tuple(categories[config.name] for config in snapshot.section.categories)
    return replace(
        snapshot, categories=categories, section=snapshot.section.model_copy(update={"categories": own})
    )


def _describe_prompt(category: CategoryConfig, shipped: bool) -> dict[str, Any]:
    given = category_prompt(category, shipped)
    described: dict[str, Any] = {
        "category": category.name,
        "prompt": given if isinstance(given, str) else given.text_in("en"),
        "enabled": category.system_prompt_enabled is not False and category.system_prompt_mode != "off",
        "mode": category.system_prompt_mode,
    }
    if isinstance(given, BilingualText):
        described["prompts"] = {"en": given.en, "zh": given.zh}
    return described
