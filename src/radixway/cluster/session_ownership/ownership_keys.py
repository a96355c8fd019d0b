"""The names by which requests are bound to gateways, and the gateways that own them."""

import re
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec
from xxhash import xxh3_64_intdigest

from radixway.core.http import Scope
from radixway.core.pipeline import ENDPOINTS


@dataclass(frozen=True, slots=True)
class GatewayFleet:
    """All gateways by URL. Pure, and the same in each.

    Rendezvous hashing (Thaler and Ravishankar 1998): a name belongs to the gateway whose hash with it is the
    highest, so that one that is added or taken away moves its own share of names and no other.
    """

    own: str
    urls: Sequence[str]

    def find_owner(self, name: str) -> str:
        """The URL of the gateway that keeps what has that name."""
        return max(self.urls, key=lambda url: (xxh3_64_intdigest(f"{url}\0{name}".encode()), url))

    def make_owned_name(self) -> str:
        """A fresh name that belongs to this gateway."""
        while self.find_owner(name := uuid.uuid4().hex) != self.own:
            pass
        return name

    @property
    def other_gateways(self) -> list[str]:
        """Return all other gateways."""
        return [url for url in self.urls if url != self.own]


_SESSION = re.compile(r"/sessions/([^/]+)(?:/.*)?")
_NAMED = {
    "/sessions": ("session_id", "id"),
    "/finish_session": ("session_id",),
    "/select_and_reserve": ("request_id",),
    "/prefill_complete": ("request_id",),
    "/output_block": ("request_id",),
    "/free": ("request_id",),
}
_MAKE = frozenset({"/sessions", "/select_and_reserve"})
"""Of these, paths that create a name where none is given."""
_OF_CONVERSATIONS = frozenset(
    {
        *(path for path, endpoint in ENDPOINTS.served_directly().items() if endpoint.generates),
        "/retrieve_from_text",
        "/retrieve_from_messages_template",
    }
)
"""Bound by the session that they name, if any."""

_body = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class OwnedRequest:
    """A request that belongs to the gateway to which `name` leads."""

    name: str
    anywhere: bool
    """Any gateway can answer it, though not as well."""


@dataclass(frozen=True, slots=True)
class OwnershipKeys:
    """Pure: a scope and a body say where a request belongs."""

    session_headers: Collection[bytes] = (b"x-session-id",)
    conversations: bool = True
    """Whether it matters which gateway answers a conversation's requests."""

    def may_be_owned(self, scope: Scope) -> bool:
        """Return True if the request may be owned; then its body has to be read."""
        path = scope["path"]
        if scope["method"] == "POST" and (
            path in _NAMED or (self.conversations and path in _OF_CONVERSATIONS)
        ):
            return True
        return _SESSION.fullmatch(path) is not None

    def find_owned(self, scope: Scope, raw: bytes) -> OwnedRequest | None:
        """Return the name that the request is bound to; None: this gateway answers, or refuses it."""
        path = scope["path"]
        in_path = _SESSION.fullmatch(path)
        if in_path is not None:
            return OwnedRequest(unquote(in_path[1]), anywhere=False)
        if path in _NAMED:
            name = _first_field(raw, _NAMED[path])
            return None if name is None else OwnedRequest(name, anywhere=False)
        for header, value in scope["headers"]:
            if header in self.session_headers:
                return OwnedRequest(value.decode("latin-1"), anywhere=True)
        name = _first_field(raw, ("session_id",)) if b'"session_id"' in raw else None
        return None if name is None else OwnedRequest(name, anywhere=True)

    def with_generated_name(self, scope: Scope, raw: bytes, name: str) -> bytes:
        """The body with a name for what it makes, where it makes something and has no name for it."""
        path = scope["path"]
        if path not in _MAKE:
            return raw
        try:
            fields = _body.decode(raw or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return raw
        return (
            raw
            if any(fields.get(each) for each in _NAMED[path])
            else msgspec.json.encode(fields | {_NAMED[path][0]: name})
        )


def _first_field(raw: bytes, fields: Collection[str]) -> str | None:
    try:
        body = _body.decode(raw or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return next((body[name] for name in fields if isinstance(body.get(name), str) and body[name]), None)
