"""System prompts put into a conversation, once, without touching its other messages."""

from __future__ import annotations

from typing import Any

import msgspec

from radixway.config.semantic.categories import PromptMode
from radixway.semantic.question import content_text

_SYSTEM_ROLES = ("system", "developer")
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def inject_system_prompt(
    messages: msgspec.Raw | bytes, prompt: str, mode: PromptMode
) -> list[msgspec.Raw] | None:
    """The messages with `prompt` in front; all but the first keep their bytes.

    `replace`: a system message that begins the conversation becomes the prompt. `insert`: the prompt goes
    before what that message says, after it a blank line. None where nothing is to be done: there is no
    prompt, the mode is `off`, or the prompt is there already.
    """
    if mode == "off" or not prompt:
        return None
    parts = _split(messages)
    first = _decode(parts[0]) if parts else {}
    if first.get("role") not in _SYSTEM_ROLES:
        return [_encode_message({"role": "system", "content": prompt}), *parts]
    content = first.get("content")
    said = content_text(content).strip()
    if said.startswith(prompt.strip()):
        return None
    if mode == "replace" or not said:
        new: Any = prompt
    elif isinstance(content, list):
        new = [{"type": "text", "text": prompt + "\n\n"}, *content]
    else:
        new = f"{prompt}\n\n{content}"
    return [_encode_message({**first, "content": new}), *parts[1:]]


def _encode_message(message: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(message))
