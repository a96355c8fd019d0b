"""What two requests must have in common before their last turns are compared at all.

An answer belongs to who asked (tenant, and user where the policy says so), which model by the name the client
used, under which system prompt, with which tools and parameters, after which conversation. All of that is one
digest, the *scope*; whatever of the body is not known to be without influence on the answer is part of it.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from radixway.semantics.prompts import read_prompt

Share = Literal["tenant", "user", "user_if_known"]

_WITHOUT_INFLUENCE = frozenset(
    {
        "messages",
        "metadata",
        "model",
        "priority",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_retention",
        "request_id",
        "rid",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "user",
    }
)
"""Fields handled separately, or that change the delivery of an answer but not its text."""

_encode = msgspec.json.Encoder(order="sorted").encode


class NotCacheableError(Exception):
    """The request is not one whose answer could be used again; the text is a short reason for the journal."""


@dataclass(frozen=True, slots=True)
class CacheQuestion:
    """A request as the cache sees it."""

    scope: str
    """Digest of everything but the question, 32 hexadecimal digits."""
    exact: str
    """Digest of the question as `normalize_question` writes it."""
    text: str
    """The ask of the last user turn, or of the prompt. What stands around it is part of the scope."""
    tenant: str
    user: str | None
    """Owner of the entry, for purging; also where the whole tenant shares it."""
    model: str


def read_cache_question(
    body: dict[str, Any],
    *,
    tenant: str,
    user: str | None,
    share: Share = "user_if_known",
    multi_turn: bool = True,
    longest_chars: int = 8192,
    max_temperature: float | None = None,
    encoder: str = "",
) -> CacheQuestion:
    """Return the scope and the question of a body of `/v1/chat/completions` or `/v1/completions`.

    `encoder`: what made the vectors; those of different ones cannot be compared.

    Raises:
        NotCacheableError: no text to compare, several answers asked for, no user's turn, too hot or too long.
    """
    _refuse_unrepeatable(body, max_temperature)
    if share == "user" and user is None:
        raise NotCacheableError("no_user")
    before, text = _last_turn(body)
    if not text.strip():
        raise NotCacheableError("no_text")
    if len(text) > longest_chars:
        raise NotCacheableError("long_question")
    if not multi_turn and any(message.get("role") in ("user", "assistant") for message in before):
        raise NotCacheableError("multi_turn")
    model = body.get("model") or ""
    text, around = _part_ask(text)
    scope = {
        "encoder": encoder,
        "surface": "chat" if "messages" in body else "completions",
        "tenant": tenant,
        "user": None if share == "tenant" else user,
        "model": model,
        "before": before,
        "around": around,
        "parameters": {
            name: value
            for name, value in body.items()
            if name not in _WITHOUT_INFLUENCE and value is not None
        },
    }
    try:
        raw = _encode(scope)
    except (TypeError, msgspec.EncodeError, UnicodeEncodeError):
        raise NotCacheableError("not_encodable") from None
    return CacheQuestion(
        blake_digest(raw), blake_digest(normalize_question(text).encode()), text, tenant, user, model
    )


def normalize_question(text: str) -> str:
    """Return the form in which two questions are literally the same.

    Unicode composed, no space at the ends; runs of blanks within one line are one. Lines, letter case and
    punctuation stay: they mean something in code.
    """
    text = unicodedata.normalize("NFC", text).encode(errors="replace").decode().strip()
    return text if "\n" in text else " ".join(text.split())


def blake_digest(raw: bytes) -> str:
    """128 bits of BLAKE2b in hexadecimal."""
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def _refuse_unrepeatable(body: dict[str, Any], max_temperature: float | None) -> None:
    if (body.get("n") or 1) != 1 or (body.get("best_of") or 1) != 1:
        raise NotCacheableError("several_answers")
    if body.get("logprobs") or body.get("echo"):
        raise NotCacheableError("logprobs")
    temperature = body.get("temperature")
    if max_temperature is None or not isinstance(temperature, int | float):
        return
    if temperature > max_temperature:
        raise NotCacheableError("temperature")


def _last_turn(body: dict[str, Any]) -> tuple[list[Any], str]:
    """Return the earlier messages, and the last user turn's text."""
    if "messages" not in body:
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise NotCacheableError("several_prompts")
        return [], prompt
    messages = body["messages"]
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        raise NotCacheableError("no_messages")
    last = messages[-1]
    if last.get("role") != "user":
        raise NotCacheableError("not_a_user_turn")
    if set(last) - {"role", "content"}:
        raise NotCacheableError("named_turn")
    before = [message for message in messages[:-1] if isinstance(message, dict)]
    if len(before) != len(messages) - 1:
        raise NotCacheableError("no_messages")
    return [_flatten_content(message) for message in before], plain_content_text(last.get("content"))


def _part_ask(text: str) -> tuple[str, list[str]]:
    """Return the ask in `text` and what stands before and after it; all of `text` if it is no piece of it."""
    ask = read_prompt(text).ask
    written = next((form for form in (ask, *_json_forms(ask)) if form and form in text), None)
    if written is None:
        return text, []
    before, _, after = text.partition(written)
    return ask, [before, after]


def _json_forms(ask: str) -> Iterator[str]:
    """Yield `ask` as it may stand between the quotes of a JSON string."""
    for ascii_only in (False, True):
        yield json.dumps(ask, ensure_ascii=ascii_only)[1:-1]


def _flatten_content(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with text-only content as one string."""
    try:
        return (
            message | {"content": plain_content_text(message["content"])}
            if message.get("content")
            else message
        )
    except NotCacheableError:
        return message


def plain_content_text(content: Any) -> str:
    """Return the text of a message's content. Raises NotCacheableError where it is more than text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise NotCacheableError("no_text")
    parts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise NotCacheableError("more_than_text")
        parts.append(part["text"])
    return "\n".join(parts)
