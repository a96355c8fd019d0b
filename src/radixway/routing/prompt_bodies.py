"""Where a prompt stands in a request's body, endpoint by endpoint. Fields stay undecoded until asked for."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw
from xxhash import xxh3_128_digest

from radixway.pipeline import Endpoint

if TYPE_CHECKING:
    from radixway.tokenizer import Tokenizer

_ABSENT = Raw(b"")
_MOST_ID_BYTES = 2**20
"""JSON of token ids that is decoded: more than a hundred thousand of them, in some 30 ms. Of a longer list
only the count is taken.
"""

_read_ids = msgspec.json.Decoder(list[int]).decode
_read_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class TokenIds(NamedTuple):
    """A prompt that the request brings as token ids."""

    packed: bytes
    """The first of them, as little-endian uint32; nearly always all."""
    total: int
    """Of all."""


class PromptBody(Protocol):
    """A body of one endpoint, as it bears on the prompt. Raises ValueError where a field makes no sense."""

    def ids(self) -> TokenIds | None:
        """The prompt's token ids that the request brings."""
        ...

    def json(self) -> bytes:
        """The prompt's JSON, in an order and form in which a longer conversation continues a shorter one."""
        ...

    def texts(self) -> str:
        """All texts of the prompt, one after the other."""
        ...

    def salt(self) -> str | None:
        """What keeps its prefixes apart from others', as KV events name it."""
        ...

    def digest(self) -> bytes:
        """Of all that its text depends on."""
        ...

    def render(self, tokenizer: Tokenizer) -> tuple[str, bool]:
        """The prompt's text, and whether the tokenizer puts special tokens around it."""
        ...

    def question(self, model: str | None) -> bytes:
        """The body with which a worker is asked for the prompt's tokens, in vLLM's form and ours."""
        ...


class _Common(msgspec.Struct, kw_only=True):
    """What every body may carry."""

    prompt_token_ids: Raw = _ABSENT
    nvext: Raw = _ABSENT
    cache_salt: Raw = _ABSENT
    extra_key: Raw = _ABSENT

    def salt(self) -> str | None:
        if not self.cache_salt and not self.extra_key:
            return None
        keys = [_text(raw) for raw in (self.extra_key, self.cache_salt)]
        return "\0".join(filter(None, keys)) or None

    def _ids(self, *own: Raw) -> TokenIds | None:
        for raw in (self.prompt_token_ids, *own):
            if raw and (packed := _packed(raw)) is not None:
                return packed
        if self.nvext:
            try:
                return _packed(_read_extension(self.nvext).token_data)
            except msgspec.ValidationError:
                return None
        return None


class _Extension(msgspec.Struct):
    """What NVIDIA Dynamo's frontend adds."""

    token_data: Raw = _ABSENT


_read_extension = msgspec.json.Decoder(_Extension).decode


class ChatBody(_Common, kw_only=True):
    """`/v1/chat/completions`."""

    messages: Raw = _ABSENT
    tools: Raw = _ABSENT
    tool_choice: Raw = _ABSENT
    add_generation_prompt: Raw = _ABSENT
    continue_final_message: Raw = _ABSENT
    chat_template: Raw = _ABSENT
    chat_template_kwargs: Raw = _ABSENT
    input_ids: Raw = _ABSENT

    def ids(self) -> TokenIds | None:
        return self._ids(self.input_ids)

    def json(self) -> bytes:
        messages = bytes(self.messages).rstrip()[:-1]
        return b"%b\0%b" % (self.tools, messages) if self.tools else messages

    def texts(self) -> str:
        return "".join(_texts(_read_any(self.messages))) if self.messages else ""

    def digest(self) -> bytes:
        return xxh3_128_digest(b"\0".join([*map(bytes, self._fields().values()), bytes(self.chat_template)]))

    def render(self, tokenizer: Tokenizer) -> tuple[str, bool]:
        from radixway.tokenizer import render_chat

        if self.chat_template and bytes(self.chat_template) != b"null":
            raise ValueError("the request brings a chat template of its own")
        fields = {name: _read_any(raw) for name, raw in self._fields().items() if raw}
        arguments = fields.pop("chat_template_kwargs", None)
        if not _fits(fields, arguments):
            raise ValueError("messages, tools or chat_template_kwargs are not what they should be")
        return render_chat(tokenizer, **fields, arguments=arguments), False

    def question(self, model: str | None) -> bytes:
        fields: dict[str, Any] = {name: raw for name, raw in self._fields().items() if raw}
        return _encode(fields | {"model": model} if model else fields)

    def _fields(self) -> dict[str, Raw]:
        return {
            "messages": self.messages,
            "tools": self.tools,
            "tool_choice": self.tool_choice,
            "add_generation_prompt": self.add_generation_prompt,
            "continue_final_message": self.continue_final_message,
            "chat_template_kwargs": self.chat_template_kwargs,
        }


class CompletionBody(_Common, kw_only=True):
    """`/v1/completions`."""

    prompt: Raw = _ABSENT
    add_special_tokens: Raw = _ABSENT

    def ids(self) -> TokenIds | None:
        return self._ids(self.prompt)

    def json(self) -> bytes:
        return _first_text(self.prompt)

    def texts(self) -> str:
        return _text(_first_text(self.prompt)) or ""

    def digest(self) -> bytes:
        return xxh3_128_digest(b"%b\0%b" % (self.add_special_tokens, self.prompt))

    def render(self, tokenizer: Tokenizer) -> tuple[str, bool]:
        return _certain_text(self.prompt), bytes(self.add_special_tokens) != b"false"

    def question(self, model: str | None) -> bytes:
        fields: dict[str, Any] = {"prompt": _certain_text(self.prompt)}
        if self.add_special_tokens:
            fields["add_special_tokens"] = self.add_special_tokens
        return _encode(fields | {"model": model} if model else fields)


class GenerateBody(_Common, kw_only=True):
    """SGLang's `/generate`."""

    text: Raw = _ABSENT
    input_ids: Raw = _ABSENT

    def ids(self) -> TokenIds | None:
        return self._ids(self.input_ids)

    def json(self) -> bytes:
        return _first_text(self.text)

    def texts(self) -> str:
        return _text(_first_text(self.text)) or ""

    def digest(self) -> bytes:
        return xxh3_128_digest(b"\0" + bytes(self.text))

    def render(self, tokenizer: Tokenizer) -> tuple[str, bool]:
        return _certain_text(self.text), True

    def question(self, model: str | None) -> bytes:
        fields: dict[str, Any] = {"prompt": _certain_text(self.text)}
        return _encode(fields | {"model": model} if model else fields)


class TextsBody:
    """Of an endpoint with texts in fields of its own: there is no one prompt, and nothing to tokenize."""

    def __init__(self, fields: Mapping[str, Raw], names: Sequence[str]) -> None:
        """`names`: the fields with texts, in the order in which they are read."""
        self._given = [fields[name] for name in names if name in fields]
        self._fields = fields

    def json(self) -> bytes:
        return b"\0".join(map(bytes, self._given))

    def texts(self) -> str:
        return "".join(text for raw in self._given for text in _texts(_read_any(raw)))

    def salt(self) -> str | None:
        salt, key = (self._fields.get(name, _ABSENT) for name in ("cache_salt", "extra_key"))
        return _Common(cache_salt=salt, extra_key=key).salt()


_read_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_DECODERS: Mapping[str, msgspec.json.Decoder[Any]] = {
    "messages": msgspec.json.Decoder(ChatBody),
    "prompt": msgspec.json.Decoder(CompletionBody),
    "text": msgspec.json.Decoder(GenerateBody),
}
"""By the first of an endpoint's `text_fields`."""


def read_prompt_body(endpoint: Endpoint, raw: bytes) -> PromptBody | TextsBody | None:
    """What a request's bytes say of its prompt; None for a body without sense."""
    names = endpoint.text_fields
    decoder = _DECODERS.get(names[0]) if names else None
    try:
        if decoder is None:
            return TextsBody(_read_fields(raw), names)
        body: PromptBody = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return body


def _packed(raw: Raw) -> TokenIds | None:
    """A list of token ids, or the first of several; None if it is neither."""
    text = bytes(raw)
    if text[:1] != b"[":
        return None
    begin = text[1:17].lstrip()[:1]
    if begin == b"[":
        text = text[text.index(b"[", 1) : text.index(b"]") + 1]
        begin = text[1:17].lstrip()[:1]
    if not begin.isdigit():
        return None
    cut = text.rfind(b",", 0, _MOST_ID_BYTES) if len(text) > _MOST_ID_BYTES else -1
    ids = _read_ids(text if cut < 0 else text[:cut] + b"]")
    try:
        packed = array("I", ids).tobytes()
    except OverflowError:
        raise ValueError("these are no token ids") from None
    return TokenIds(packed, len(ids) + (text.count(b",", cut) if cut > 0 else 0))


def _first_text(raw: Raw) -> bytes:
    """The JSON of a prompt, or of the first of several."""
    text = bytes(raw)
    if text[:1] != b"[":
        return text
    prompts = _read_any(raw)
    return _encode(prompts[0]) if prompts else b""


def _certain_text(raw: Raw) -> str:
    text = _text(_first_text(raw))
    if text is None:
        raise ValueError("the prompt is no text")
    return text


def _text(raw: Raw | bytes) -> str | None:
    value = _read_any(raw) if raw else None
    return value if isinstance(value, str) else None


def _fits(fields: Mapping[str, Any], arguments: Any) -> bool:
    """Are these the types that a template is given?"""
    messages, tools = fields.get("messages"), fields.get("tools")
    return (
        isinstance(messages, list)
        and all(isinstance(message, dict) for message in messages)
        and isinstance(tools, list | None)
        and isinstance(arguments, dict | None)
    )


def _texts(value: Any) -> list[str]:
    """Every text in messages, in parts of their contents, or in a list of prompts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return _texts(value.get("content") or value.get("text"))
    return []
