"""Asks workers for the usage of streams that are charged, and takes it out of what the client gets."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

import msgspec

from radixway.core.http.exchange import SENT
from radixway.core.pipeline import Chunks, Endpoint, Next, Reply, Request
from radixway.core.pipeline.endpoints import ReplyForm
from radixway.core.tenants.account import TenantAccount
from radixway.core.tenants.pricing import PriceList

_OPTIONS = "stream_options"
_ENDS = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")
_NO_USAGE = re.compile(rb',\s*"usage"\s*:\s*null(?=\s*[,}])|(?<=\{)\s*"usage"\s*:\s*null\s*,')


class StreamUsage:
    """A `pipeline.Middleware` outside of the limits, which read the usage that it takes out.

    A stream is charged where its model has a price, or its tenant or key has limits. Where the
    client asks for usage itself nothing is changed.
    """

    step_name = "StreamUsage"

    def __init__(
        self,
        prices: PriceList,
        accounts: Mapping[str, TenantAccount],
        is_auto: Callable[[str], bool],
        has_prices: Callable[[], bool],
    ) -> None:
        """`accounts`: of tenants. `is_auto`: whether a model's name leaves the choice to the gateway.
        `has_prices`: whether any model has a price.
        """
        self._has_prices = has_prices
        self._prices = prices
        self._accounts = accounts
        self._is_auto = is_auto

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether clients say if they want the usage of its streams."""
        return endpoint.reply_form in (ReplyForm.CHAT, ReplyForm.COMPLETION)

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Return the answer of `call_next`, as if it had been asked what the client asked."""
        if not request.stream or request.routing.data_plane is not None or not self._is_charged(request):
            return await call_next(request)
        if not _ask_for_usage(request):
            return await call_next(request)
        reply = await call_next(request)
        if reply.chunks is not None:
            reply.chunks = UsageFreeChunks(reply.chunks)
        return reply

    def _is_charged(self, request: Request) -> bool:
        caller = request.caller
        if caller.key is not None or (
            caller.policy is not None and self._accounts[caller.policy.name].estimates
        ):
            return True
        model = request.model
        if model is None or self._is_auto(model):
            return self._has_prices()
        return self._prices.pricing_of(model) is not None


def _ask_for_usage(request: Request) -> bool:
    """Let the worker tell the usage; return False where the client has asked for it."""
    parsed = request.parsed
    if b'"stream_options"' not in request.raw:
        request.add_field(_OPTIONS, {"include_usage": True})
    else:
        options = request.body.get(_OPTIONS)
        if options is not None and (not isinstance(options, dict) or options.get("include_usage")):
            return False
        wanted = {**(options or {}), "include_usage": True}
        wanted.pop("continuous_usage_stats", None)  # of no effect without the usage that is asked for here
        request.edit(stream_options=wanted)
    if parsed is not None:
        request.note_parsed(parsed)
    return True


class UsageFreeChunks(Chunks):
    """A stream without its usage; every other event has its own bytes."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._send: Callable[[bytes], Awaitable[None]]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not (chunk := strip_usage(await anext(self._chunks))):
            pass
        return chunk

    async def pass_on(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        try:
            await self._chunks.pass_on(self._send_stripped)
        finally:
            del self._send  # as in `MeteredChunks`

    async def aclose(self) -> None:
        await self._chunks.aclose()

    def _send_stripped(self, chunk: bytes) -> Awaitable[None]:
        left = strip_usage(chunk)
        return self._send(left) if left else SENT


class _ChunkHead(msgspec.Struct):
    choices: list[msgspec.Raw] | None = None
    usage: Any = None


_read_head = msgspec.json.Decoder(_ChunkHead).decode


def strip_usage(chunk: bytes) -> bytes:
    """Return whole events without those that hold usage alone, and without `"usage": null` in others."""
    if b'"usage"' not in chunk:
        return chunk
    return b"".join(map(_strip_event, _ENDS.split(chunk)))


def _strip_event(event: bytes) -> bytes:
    start = event.find(b"{")
    if b'"usage"' not in event or start < 0:
        return event
    try:
        head = _read_head(event[start : event.rfind(b"}") + 1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return event
    if head.usage is not None:
        return event if head.choices else b""
    return _NO_USAGE.sub(b"", event, count=1)
