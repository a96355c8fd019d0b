"""From a request's body to what the selector needs: the prompt's blocks, its length, its session, its text.

Only what the model's policy reads is looked for. Token ids that are in the request are taken first; a prompt
that cannot be tokenized here is cut into blocks of the JSON text of its tools and messages, of which two
requests share as much as they share a beginning, if their clients write JSON alike.
"""

from __future__ import annotations

from array import array
from typing import Any, Protocol

import msgspec

from radixway.config import RoutingSection
from radixway.pipeline import Request
from radixway.routing.block_hash import namespace_seed, text_blocks, token_blocks
from radixway.routing.request import RoutingRequest

_TEXT_BYTES_PER_TOKEN = 4
"""In English, as most tokenizers count; only estimates depend on it."""

_ABSENT = msgspec.Raw(b"")


class _Body(msgspec.Struct):
    """The fields of all surfaces in which a prompt may stand, undecoded, and what keeps caches apart."""

    messages: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    text: msgspec.Raw = _ABSENT
    input_ids: msgspec.Raw = _ABSENT
    cache_salt: msgspec.Raw = _ABSENT
    extra_key: msgspec.Raw = _ABSENT


_read_body = msgspec.json.Decoder(_Body).decode
_read_ids = msgspec.json.Decoder(list[int]).decode
_read_any = msgspec.json.Decoder().decode


class Reads(Protocol):
    """What of prompts somebody looks at: a policy, or who records traffic."""

    @property
    def reads_blocks(self) -> bool: ...

    @property
    def reads_text(self) -> bool: ...

    @property
    def reads_session(self) -> bool: ...


class PromptReader:
    """Makes a `RoutingRequest` of a `Request`."""

    def __init__(self, config: RoutingSection) -> None:
        self._config = config

    def read(self, request: Request, policy: Reads) -> RoutingRequest:
        """What `policy` needs to know of `request`. A body without sense says little: workers refuse it."""
        found = RoutingRequest(model=request.model, stream=request.stream)
        if policy.reads_session:
            found.session = self._session(request)
        if policy.reads_blocks or policy.reads_text:
            try:
                body = _read_body(request.raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                return found
            if policy.reads_blocks:
                self._add_blocks(found, body)
            if policy.reads_text:
                found.text = _contents(body)
        return found

    def _add_blocks(self, found: RoutingRequest, body: _Body) -> None:
        seed = namespace_seed(None, _salt(body))
        ids = _token_ids(body)
        if ids is not None:
            found.tokens = len(ids)
            found.block_tokens = self._config.block_size
            found.blocks = token_blocks(ids.tobytes(), self._config.block_size, seed)
            found.tokenized = True
            return
        text = _prompt_text(body)
        found.tokens = -(-len(text) // _TEXT_BYTES_PER_TOKEN)
        found.block_tokens = self._config.text_block_bytes // _TEXT_BYTES_PER_TOKEN
        found.blocks = text_blocks(text, self._config.text_block_bytes, seed)

    def _session(self, request: Request) -> str | None:
        """The first of the configured headers, then body fields, that names a session."""
        config = self._config.session
        for name, value in request.headers:
            if name.decode("latin-1") in config.headers:
                return value.decode("latin-1")
        for field in config.fields:
            named = request.body.get(field)
            if isinstance(named, str) and named:
                return named
        return None


def _token_ids(body: _Body) -> array[int] | None:
    """The prompt's token ids, if the request brings them."""
    for raw in (body.input_ids, body.prompt):
        text = bytes(raw)
        if text[:1] == b"[" and text[1:].lstrip()[:1].isdigit():
            try:
                return array("I", _read_ids(raw))
            except (msgspec.DecodeError, OverflowError):
                return None
    return None


def _prompt_text(body: _Body) -> bytes:
    """The prompt's JSON, in an order and form in which a longer conversation continues a shorter one."""
    if body.messages:
        return b"%b\0%b" % (bytes(body.tools), bytes(body.messages).rstrip()[:-1])
    return bytes(body.prompt) or bytes(body.text)


def _salt(body: _Body) -> str | None:
    """What keeps the request's prefixes apart, as KV events name it."""
    values = [_read_any(raw) for raw in (body.extra_key, body.cache_salt) if raw]
    return "\0".join(value for value in values if isinstance(value, str) and value) or None


def _contents(body: _Body) -> str:
    """The texts of all messages, one after the other, or the prompt."""
    for raw in (body.messages, body.prompt, body.text):
        if raw:
            return "".join(_texts(_read_any(raw)))
    return ""


def _texts(value: Any) -> list[str]:
    """Every text in messages, in parts of their contents, or in a list of prompts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return _texts(value.get("content") or value.get("text"))
    return []
