"""What of an answer is kept, and how it is given again: whole or as a stream, with its own id and time."""

import zlib
from typing import Any
from uuid import uuid4

import msgspec

from radixway.core.http.server_sent_events import DONE_DATA, DONE_EVENT, event_data, split_events, write_event
from radixway.core.pipeline import ReplyForm

CHAT = ReplyForm.CHAT
_IDS = {CHAT: "chatcmpl-", ReplyForm.COMPLETION: "cmpl-"}
_OBJECTS = {CHAT: "chat.completion", ReplyForm.COMPLETION: "text_completion"}
_MESSAGE_FIELDS = frozenset({"role", "content", "reasoning_content", "reasoning"})
_THINKING = ("reasoning_content", "reasoning")

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class NotStorableError(Exception):
    """The answer is not one to give again; the text is a short reason for the journal."""


def encode_answer(form: ReplyForm, status: int, body: bytes, largest_bytes: int) -> bytes:
    """Return a whole reply's body in the form in which it is stored (deflated JSON).

    Raises:
        NotStorableError: it failed, was cut short, filtered or refused, calls tools, is empty, or too large.
    """
    if status != 200:
        raise NotStorableError("failed")
    if len(body) > largest_bytes:
        raise NotStorableError("too_large")
    try:
        reply = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        raise NotStorableError("not_json") from None
    _check_reply(form, reply)
    return zlib.compress(body, 1)


def decode_answer(stored: bytes, form: ReplyForm, now: float) -> bytes:
    """The stored answer as a whole reply's body; all fields but `id` and `created` are as they were."""
    reply = _decode(zlib.decompress(stored))
    reply["id"] = _IDS[form] + uuid4().hex
    reply["created"] = int(now)
    return _encode(reply)


def decode_answer_events(
    stored: bytes, form: ReplyForm, now: float, *, chunk_chars: int, include_usage: bool
) -> list[bytes]:
    """Return the stored answer as the events of a stream, the last one `[DONE]`."""
    reply = _decode(zlib.decompress(stored))
    choice = reply["choices"][0]
    head: dict[str, Any] = {
        "id": _IDS[form] + uuid4().hex,
        "object": "chat.completion.chunk" if form == CHAT else "text_completion",
        "created": int(now),
        "model": reply.get("model"),
    }
    for name in ("system_fingerprint", "service_tier"):
        if name in reply:
            head[name] = reply[name]
    if include_usage:
        head["usage"] = None
    finish = choice["finish_reason"]
    if form == CHAT:
        deltas = _split_deltas(choice["message"], chunk_chars)
        choices: list[dict[str, Any]] = [
            {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas
        ]
        choices.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish})
    else:
        pieces = _split_text(choice["text"], chunk_chars)
        choices = [{"index": 0, "text": piece, "logprobs": None, "finish_reason": None} for piece in pieces]
        choices[-1]["finish_reason"] = finish
    events = [_encode_event(head | {"choices": [choice]}) for choice in choices]
    if include_usage:
        events.append(_encode_event(head | {"choices": [], "usage": reply.get("usage")}))
    return [*events, DONE_EVENT]


def assemble_events(form: ReplyForm, events: bytes) -> bytes:
    """Return the events of a stream as the whole reply that they add up to.

    Raises:
        NotStorableError: the stream did not come to its end, or carries what a whole answer to keep must not.
    """
    head: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    finish, usage, done = None, None, False
    for data in filter(None, map(event_data, split_events(events))):
        if data == DONE_DATA:
            done = True
            continue
        try:
            chunk = _decode(data)
            choices = chunk.get("choices") or []
            usage = chunk.get("usage") or usage
            if not head:
                head = {name: value for name, value in chunk.items() if name not in ("choices", "usage")}
            if "error" in chunk:
                raise NotStorableError("failed")
            for choice in choices:
                finish = choice.get("finish_reason") or finish
                _collect_texts(form, choice, texts)
        except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, TypeError, RecursionError):
            raise NotStorableError("not_json") from None
    if not done:
        raise NotStorableError("unfinished")
    return _encode(_assemble_reply(form, head, texts, finish, usage))


def _assemble_reply(
    form: ReplyForm, head: dict[str, Any], texts: dict[str, list[str]], finish: Any, usage: Any
) -> Any:
    fields = {name: "".join(parts) for name, parts in texts.items()}
    if form == CHAT:
        message = {"role": "assistant", "content": fields.pop("content", "")} | fields
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    else:
        choice = {"index": 0, "text": fields.get("text", ""), "logprobs": None, "finish_reason": finish}
    reply = head | {"object": _OBJECTS[form], "choices": [choice]}
    return reply | {"usage": usage} if usage else reply


def _check_reply(form: ReplyForm, reply: dict[str, Any]) -> None:
    """Check that the reply is one whole text answer. Raises NotStorableError."""
    choices = reply.get("choices")
    if "error" in reply or not isinstance(choices, list) or len(choices) != 1:
        raise NotStorableError("not_one_answer")
    choice = choices[0]
    if not isinstance(choice, dict):
        raise NotStorableError("not_one_answer")
    finish = choice.get("finish_reason")
    if finish != "stop":
        raise NotStorableError(
            f"finish_{finish}" if finish in ("length", "content_filter", "tool_calls") else "finish"
        )
    if form == CHAT:
        message = choice.get("message")
        if not isinstance(message, dict):
            raise NotStorableError("not_one_answer")
        if any(message[name] for name in message if name not in _MESSAGE_FIELDS):
            raise NotStorableError("more_than_text")
        content = message.get("content")
        thought = [message[name] for name in _THINKING if message.get(name)]
        if not all(isinstance(text, str) for text in thought):
            raise NotStorableError("more_than_text")
    else:
        content = choice.get("text")
    if not isinstance(content, str) or not content.strip():
        raise NotStorableError("empty")


def _collect_texts(form: ReplyForm, choice: dict[str, Any], texts: dict[str, list[str]]) -> None:
    if choice.get("index", 0) != 0:
        raise NotStorableError("not_one_answer")
    delta = choice.get("delta") or {} if form == CHAT else {"text": choice.get("text")}
    for name, value in delta.items():
        if name == "role" or not value:
            continue
        if not isinstance(value, str) or (form == CHAT and name not in _MESSAGE_FIELDS):
            raise NotStorableError("more_than_text")
        texts.setdefault(name, []).append(value)


def _split_deltas(message: dict[str, Any], chunk_chars: int) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for name in (*_THINKING, "content"):
        deltas += [{name: piece} for piece in _split_text(message.get(name) or "", chunk_chars) if piece]
    return deltas


def _split_text(text: str, chars: int) -> list[str]:
    return [text[at : at + chars] for at in range(0, len(text), chars)] or [""]


def _encode_event(chunk: dict[str, Any]) -> bytes:
    return write_event(_encode(chunk))
