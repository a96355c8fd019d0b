"""Request bodies: read up to a limit, decode into structs, errors that name the field."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from radixway.core.http.asgi import Message, Receive, Scope
from radixway.core.http.connections import FREE_BODY_BYTES, ConnectionState
from radixway.core.http.errors import BadBodyError, HttpError

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


ValueT = TypeVar("ValueT")
StructT = TypeVar("StructT", bound=msgspec.Struct)

_object_decoder = msgspec.json.Decoder(dict[str, Any])

_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?(?P<field>[^`]*)`$")
_NAMED = re.compile(r"(?:missing required|unknown) field `(?P<field>[^`]*)`")

_MAX_DRAIN_FACTOR = 2
"""Multiple of the limit up to which a too large body is discarded, because simple clients read no answer
before they have sent all; a larger announced length is answered at once.
"""


class ClientDisconnectedError(Exception):
    """The client left before its request was complete."""


def limit_body(receive: Receive, limit: int) -> Receive:
    """Return `receive`, which raises BadBodyError (413) once the body has more than `limit` bytes."""
    size = 0

    async def receive_limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise body_too_large_error(limit)
        return message

    return receive_limited


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the whole body, at most `limit` bytes. Raises ClientDisconnectedError, BadBodyError (413)."""
    body, pieces = b"", BytesIO()
    size = 0
    more = True
    if _is_body_skipped(scope, limit):
        raise body_too_large_error(limit)
    while more and size <= limit * _MAX_DRAIN_FACTOR:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        part = message.get("body", b"")
        size += len(part)
        more = message.get("more_body", False)
        if size > limit:
            pieces = BytesIO()
        elif size == len(part) and not more:
            body = part
        else:  # piece by piece: joining 16 MiB at the end takes 8 ms
            pieces.write(part)
    if size > limit:
        raise body_too_large_error(limit)
    return body or pieces.getvalue()


def decode_json(decoder: msgspec.json.Decoder[ValueT], raw: bytes) -> ValueT:
    """Decode the body `raw`. Raises BadBodyError (400), which names the field at fault."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise field_error(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBodyError(f"the body is not valid JSON: {error}", code="invalid_json") from None
    except RecursionError:
        raise BadBodyError("the body is nested too deeply", code="invalid_json") from None


def decode_open_struct(raw: bytes, into: type[StructT]) -> tuple[StructT, dict[str, Any], dict[str, Any]]:
    """Decode `raw` as the struct `into`, as the object it is, and the fields of it that the struct does not
    know.

    Raises BadBodyError (400): malformed JSON, or a field of the wrong type or out of range.
    """
    fields = decode_json(_object_decoder, raw)
    try:
        body = msgspec.convert(fields, into)
    except msgspec.ValidationError as error:
        raise field_error(str(error)) from None
    known = into.__struct_encode_fields__
    return body, fields, {name: value for name, value in fields.items() if name not in known}


def decode_query(fields: Mapping[str, str], into: type[ValueT]) -> ValueT:
    """Decode a query string, whose numbers and booleans are texts. Raises BadBodyError (400)."""
    try:
        return msgspec.convert(fields, into, strict=False)
    except msgspec.ValidationError as error:
        raise field_error(str(error)) from None


def _is_body_skipped(scope: Scope, limit: int) -> bool:
    """Return whether a body is far too large, or too large and waiting for `100 Continue`, by its head."""
    declared = 0
    waits = False
    for name, value in scope["headers"]:
        if name == b"content-length":
            declared = int(value) if value.isdigit() else 0
        elif name == b"expect":
            waits = True
    return declared > limit * (1 if waits else _MAX_DRAIN_FACTOR)


def body_too_large_error(limit: int) -> BadBodyError:
    """Return the error (413) for a body of more than `limit` bytes."""
    return BadBodyError(
        f"the body has more than the {limit} bytes allowed", status=413, code="body_too_large"
    )


def field_error(text: str) -> BadBodyError:
    """Return msgspec's message `text` as an error with the field's name in front and in `param`."""
    place = _PLACE.search(text)
    field = place["field"] if place else ""
    named = _NAMED.search(text)
    if named:
        field = f"{field}.{named['field']}" if field else named["field"]
    message = _PLACE.sub("", text).replace("`", "")
    return BadBodyError(f"{field}: {message}" if field else message, param=field or None)


def replay_body(raw: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays the body that was read."""
    rest: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive_again() -> Message:
        return rest.pop() if rest else await receive()

    return receive_again


_CLOSE = (b"connection", b"close")


class IncomingBody:
    """Stands before `receive` and `send` of a request whose body was not there with its head.

    Only the time in which the application waits for the body counts: while it does not ask, the connection is
    not read either.
    """

    __slots__ = ("_cycle", "_held_bytes", "_left_s", "_missing_bytes", "_size", "_state", "ends_connection")

    def __init__(self, cycle: RequestResponseCycle, state: ConnectionState) -> None:
        self._cycle = cycle
        self._state = state
        self._size = 0
        self._held_bytes = 0
        self.ends_connection = False
        """The client was told that the connection ends with its answer."""
        self._left_s = 0.0
        self._missing_bytes = 0
        self._start_rate_window()

    async def receive(self) -> Message:
        """The next piece. Raises HttpError: 408, or what `hold_body` raises."""
        cycle = self._cycle
        if not cycle.more_body:
            return self._count_piece(cast(Message, await cycle.receive()))
        loop = asyncio.get_running_loop()
        end = loop.time() + self._left_s
        try:
            async with asyncio.timeout_at(end):
                message = cast(Message, await cycle.receive())
        except TimeoutError:
            limits = self._state.limits
            self._state.counts.slow_bodies += 1
            problem = (
                f"the body stalled: {self._size} bytes of it came, in the last {limits.body_timeout_s:g} s "
                f"less than {limits.min_body_bytes_per_s} a second"
            )
            raise HttpError(problem, status=408, code="body_timeout") from None
        self._left_s = max(end - loop.time(), 0.0)
        return self._count_piece(message)

    async def send(self, message: Message) -> None:
        """Pass a message on. An answer that begins before the whole body is there ends the connection."""
        cycle = self._cycle
        if message["type"] != "http.response.start" or not cycle.more_body:
            await cycle.send(message)  # type: ignore[arg-type]
            return
        await cycle.send({**message, "headers": [*message.get("headers", ()), _CLOSE]})  # type: ignore[arg-type]
        self.ends_connection = True
        cycle.keep_alive = True  # else it closes at once; its protocol waits until the answer can be read

    def release_memory(self) -> None:
        """Release the memory of an unread body."""
        self._state.release_body(self._held_bytes)
        self._held_bytes = 0

    def _count_piece(self, message: Message) -> Message:
        size = len(message.get("body", b""))
        self._size += size
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self._start_rate_window()
        if not message.get("more_body", False):
            self.release_memory()
        elif (more := self._size - FREE_BODY_BYTES - self._held_bytes) > 0:
            self._state.hold_body(more)
            self._held_bytes += more
        return message

    def _start_rate_window(self) -> None:
        limits = self._state.limits
        self._left_s = limits.body_timeout_s
        self._missing_bytes = max(1, int(limits.body_timeout_s * limits.min_body_bytes_per_s))
