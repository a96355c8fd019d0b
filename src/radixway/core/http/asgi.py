"""ASGI's three arguments, and the ids of requests."""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from itertools import count
from secrets import randbits, token_hex
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FORWARDER = "radixway.forwarder"
"""The key of a scope that says who brings the request to its worker, where the gateway does not."""


def choose_request_id(given: bytes | None) -> str:
    """Return the client's `x-request-id` if it is at most 128 printable ASCII characters, or a fresh one."""
    if given is not None and 0 < len(given) <= 128 and given.isascii():
        name = given.decode("ascii")
        if name.isprintable():
            return name
    return f"{_ID_PREFIX}{next(_numbers):016x}"


_ID_PREFIX = ""
_numbers = count()


def _draw_id_prefix() -> None:
    global _ID_PREFIX, _numbers
    _ID_PREFIX, _numbers = token_hex(8), count(randbits(32))


_draw_id_prefix()
os.register_at_fork(after_in_child=_draw_id_prefix)
