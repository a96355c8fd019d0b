"""Finds the prompt in a request's body, per endpoint. Fields stay undecoded until they are needed."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw
from xxhash import xxh3_128_digest

from radixway.core.pipeline import Endpoint

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer

_ABSENT = Raw(b"")
_MAX_ID_BYTES = 2**20
"""Bytes of JSON token ids that are decoded: over a hundred thousand, in some 30 ms. Longer lists are only
counted."""

_read_ids = msgspec.json.Decoder(list[int]).decode
_read_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class PackedTokenIds(NamedTuple):
    """A prompt that the request brings as token ids."""

    packed: bytes
    """The first of them, as little-endian uint32; nearly always all."""
    total: int


class _CommonFields(msgspec.Struct, kw_only=True):
    prompt_token_ids: Raw = _ABSENT
    nvext: Raw = _ABSENT
    cache_salt: Raw = _ABSENT
    extra_key: Raw = _ABSENT

    def namespace_salt(self) -> str | None:
        if not self.cache_salt and not self.extra_key:
            return None
        keys = [_decode_text(raw) for raw in (self.extra_key, self.cache_salt)]
        return "\0".join(filter(None, keys)) or None

    def _find_token_ids(self, *own: Raw) -> PackedTokenIds | None:
        for raw in (self.prompt_token_ids, *own):
            if raw and (packed := _pack_token_ids(raw)) is not None:
                return packed
        if self.nvext:
            try:
                return _pack_token_ids(_read_extension(self.nvext).token_data)
            except msgspec.ValidationError:
                return None
        return None


class _DynamoExtension(msgspec.Struct):
    token_data: Raw = _ABSENT


_read_extension = msgspec.json.Decoder(_DynamoExtension).decode


class ChatPromptBody(_CommonFields, kw_only=True):
    """`/v1/chat/completions`. Methods raise ValueError where a field makes no sense."""

    messages: Raw = _ABSENT
    tools: Raw = _ABSENT
    tool_choice: Raw = _ABSENT
    add_generation_prompt: Raw = _ABSENT
    continue_final_message: Raw = _ABSENT
    chat_template: Raw = _ABSENT
    chat_template_kwargs: Raw = _ABSENT
    input_ids: Raw = _ABSENT

    def token_ids(self) -> PackedTokenIds | None:
        """Return the prompt's token ids, if the request brings them."""
        return self._find_token_ids(self.input_ids)

    def prompt_json(self, max_bytes: int) -> tuple[bytes, int]:
        """Return `max_bytes` of the prompt's JSON, and how long it is; a longer conversation continues it."""
        messages = memoryview(self.messages)[:-1]
        tools = b"%b\0" % self.tools if self.tools else b""
        return tools + messages[:max_bytes], len(tools) + len(messages)

    def prompt_text(self) -> str:
        """Return all texts of the prompt, joined."""
        return "".join(_collect_texts(_read_any(self.messages))) if self.messages else ""

    def prompt_digest(self) -> bytes:
        """Return a digest of all that the prompt's text depends on."""
        return xxh3_128_digest(
            b"\0".join([*map(bytes, self._template_fields().values()), bytes(self.chat_template)])
        )

    def render_prompt(self, tokenizer: Tokenizer) -> tuple[str, bool]:
        """Return the prompt's text, and whether `tokenizer` puts special tokens around it."""
        from radixway.core.tokenizer import render_chat

        if self.chat_template and bytes(self.chat_template) != b"null":
            raise ValueError("the request brings a chat template of its own")
        fields = {name: _read_any(raw) for name, raw in self._template_fields().items() if raw}
        arguments = fields.pop("chat_template_kwargs", None)
        if not _is_renderable(fields, arguments):
            raise ValueError("messages, tools or chat_template_kwargs are not what they should be")
        return render_chat(tokenizer, **fields, arguments=arguments), False

    def tokenize_payload(self, model: str | None) -> bytes:
        """Return the body that asks a worker of `model` for the prompt's tokens, in vLLM's form and ours."""
        fields: dict[str, Any] = {name: raw for name, raw in self._template_fields().items() if raw}
        return _encode(fields | {"model": model} if model else fields)

    def _template_fields(self) -> dict[str, Raw]:
        return {
            "messages": self.messages,
            "tools": self.tools,
            "tool_choice": self.tool_choice,
            "add_generation_prompt": self.add_generation_prompt,
            "continue_final_message": self.continue_final_message,
            "chat_template_kwargs": self.chat_template_kwargs,
        }


class CompletionPromptBody(_CommonFields, kw_only=True):
    """`/v1/completions`; methods as in `ChatPromptBody`."""

    prompt: Raw = _ABSENT
    add_special_tokens: Raw = _ABSENT

    def token_ids(self) -> PackedTokenIds | None:
        return self._find_token_ids(self.prompt)

    def prompt_json(self, max_bytes: int) -> tuple[bytes, int]:
        text = memoryview(self.prompt)
        if bytes(text[:1]) == b"[":
            text = memoryview(_first_text(self.prompt))
        return bytes(text[:max_bytes]), len(text)

    def prompt_text(self) -> str:
        return _decode_text(_first_text(self.prompt)) or ""

    def prompt_digest(self) -> bytes:
        return xxh3_128_digest(b"%b\0%b" % (self.add_special_tokens, self.prompt))

    def render_prompt(self, tokenizer: Tokenizer) -> tuple[str, bool]:
        return _require_text(self.prompt), bytes(self.add_special_tokens) != b"false"

    def tokenize_payload(self, model: str | None) -> bytes:
        fields: dict[str, Any] = {"prompt": _require_text(self.prompt)}
        if self.add_special_tokens:
            fields["add_special_tokens"] = self.add_special_tokens
        return _encode(fields | {"model": model} if model else fields)


class GeneratePromptBody(CompletionPromptBody, kw_only=True):
    """SGLang's `/generate`."""

    prompt: Raw = msgspec.field(default=_ABSENT, name="text")
    input_ids: Raw = _ABSENT

    def __post_init__(self) -> None:
        self.add_special_tokens = _ABSENT  # the endpoint has no such field

    def token_ids(self) -> PackedTokenIds | None:
        return self._find_token_ids(self.input_ids)


PromptBody = ChatPromptBody | CompletionPromptBody


class TextsBody:
    """The body of an endpoint with texts in its own fields: it has no single prompt to tokenize."""

    def __init__(self, fields: Mapping[str, Raw], names: Sequence[str]) -> None:
        """`names`: the fields with texts, in the order in which they are read."""
        self._given = [fields[name] for name in names if name in fields]
        self._fields = fields

    def prompt_json(self, max_bytes: int) -> tuple[bytes, int]:
        texts = [memoryview(raw) for raw in self._given]
        length = sum(len(text) + 1 for text in texts) - 1 if texts else 0
        return b"\0".join([text[:max_bytes] for text in texts]), length

    def prompt_text(self) -> str:
        return "".join(text for raw in self._given for text in _collect_texts(_read_any(raw)))

    def namespace_salt(self) -> str | None:
        salt, key = (self._fields.get(name, _ABSENT) for name in ("cache_salt", "extra_key"))
        return _CommonFields(cache_salt=salt, extra_key=key).namespace_salt()


_read_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_DECODERS: Mapping[str, msgspec.json.Decoder[Any]] = {
    "messages": msgspec.json.Decoder(ChatPromptBody),
    "prompt": msgspec.json.Decoder(CompletionPromptBody),
    "text": msgspec.json.Decoder(GeneratePromptBody),
}
"""By the first of an endpoint's `text_fields`."""


def parse_prompt_body(endpoint: Endpoint, raw: bytes) -> PromptBody | TextsBody | None:
    """Parse the prompt fields of `raw` for `endpoint`; None if the body is malformed."""
    names = endpoint.text_fields
    decoder = _DECODERS.get(names[0]) if names else None
    try:
        if decoder is None:
            return TextsBody(_read_fields(raw), names)
        body: PromptBody = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return body


def _pack_token_ids(raw: Raw) -> PackedTokenIds | None:
    """Pack a list of token ids, or the first of several; None for neither."""
    text = bytes(raw)
    if text[:1] != b"[":
        return None
    begin = text[1:17].lstrip()[:1]
    if begin == b"[":
        text = text[text.index(b"[", 1) : text.index(b"]") + 1]
        begin = text[1:17].lstrip()[:1]
    if not begin.isdigit():
        return None
    cut = text.rfind(b",", 0, _MAX_ID_BYTES) if len(text) > _MAX_ID_BYTES else -1
    ids = _read_ids(text if cut < 0 else text[:cut] + b"]")
    try:
        packed = array("I", ids).tobytes()
    except OverflowError:
        raise ValueError("these are no token ids") from None
    return PackedTokenIds(packed, len(ids) + (text.count(b",", cut) if cut > 0 else 0))


def _first_text(raw: Raw) -> bytes:
    """Return the JSON of a prompt, or the first of several."""
    text = bytes(raw)
    if text[:1] != b"[":
        return text
    prompts = _read_any(raw)
    return _encode(prompts[0]) if prompts else b""


def _require_text(raw: Raw) -> str:
    text = _decode_text(_first_text(raw))
    if text is None:
        raise ValueError("the prompt is no text")
    return text


def _decode_text(raw: Raw | bytes) -> str | None:
    value = _read_any(raw) if raw else None
    return value if isinstance(value, str) else None


def _is_renderable(fields: Mapping[str, Any], arguments: Any) -> bool:
    messages, tools = fields.get("messages"), fields.get("tools")
    return (
        isinstance(messages, list)
        and all(isinstance(message, dict) for message in messages)
        and isinstance(tools, list | None)
        and isinstance(arguments, dict | None)
    )


def _collect_texts(value: Any) -> list[str]:
    """Return every text in messages, content parts, or a list of prompts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _collect_texts(item)]
    if isinstance(value, dict):
        return _collect_texts(value.get("content") or value.get("text"))
    return []
