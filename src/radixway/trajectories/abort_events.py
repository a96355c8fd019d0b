"""Streams of `/generate` that go on where a worker broke them off.

SGLang repeats the whole answer so far in each event, so an event of a later attempt is rewritten to begin
with what the earlier ones gave. Servers that send only what is new (`--incremental-streaming-output`) are
known by events with fewer tokens than they say there are; their events are rewritten in the same way.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

import msgspec

from radixway.pipeline import Chunks, Next, Reply, Request, RunningRequest
from radixway.trajectories.partial import Answer, Json, aborted

if TYPE_CHECKING:
    from radixway.trajectories.abort import ResumeAborted

_DONE = b"data: [DONE]\n\n"
_EVENT = re.compile(rb".+?(?:\r?\n\r?\n|\Z)", re.DOTALL)

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder().decode


class Attempt:
    """The events of one attempt, added up to the reply it has given so far."""

    def __init__(self) -> None:
        self.whole: Json | None = None
        self.incremental: bool | None = None
        """Events hold only what is new; None while that is not known."""

    @property
    def closely_read(self) -> bool:
        """Every event counts: what came before is not in the last one."""
        return self.incremental is not False

    def add(self, event: Json) -> Json:
        """The reply so far, this event included."""
        before = self.whole
        if before is not None and self.incremental is None:
            self.incremental = _is_incremental(before, event)
        if before is not None and self.incremental and isinstance(event.get("output_ids"), list):
            event = _added(before, event)
        self.whole = event
        return event


class ResumedEvents(Chunks):
    """The events of a request's attempts as one stream; bytes pass through as they are until one aborts."""

    def __init__(
        self,
        owner: ResumeAborted,
        request: Request,
        running: RunningRequest,
        first: Reply,
        call_next: Next,
        *,
        resumable: bool,
    ) -> None:
        assert first.chunks is not None
        self._owner = owner
        self._request = request
        self._running = running
        self._reply = first
        self._inner: Chunks = first.chunks
        self._call_next = call_next
        self._resumable = resumable
        self._attempt = Attempt()
        self._last = b""
        """The chunk before, unless its events were read."""
        self._held = b""
        """The event that aborts, and what came after it."""
        self._broken_off: Json | None = None
        """The reply that the abort ended."""
        self._passed: Json | None = None
        """The reply as far as the client has seen it, as far as that is known."""
        self._incremental: bool | None = None
        """How the stream began; see `Attempt`."""
        self._ended = False
        self._events = self._all()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def pass_on(self, send: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        async def relay(chunk: bytes) -> None:
            if passed := self._take(chunk):
                await send(passed)

        await self._inner.pass_on(relay)
        async with aclosing(self._rest()) as rest:
            async for chunk in rest:
                await send(chunk)
        self._ended = True

    async def aclose(self) -> None:
        await self._events.aclose()
        await self._inner.aclose()
        unfinished, self._ended = not self._ended, True
        self._owner.left(self._request, self._running, unfinished=unfinished)

    async def _all(self) -> AsyncGenerator[bytes]:
        async for chunk in self._inner:
            if passed := self._take(chunk):
                yield passed
        async with aclosing(self._rest()) as rest:
            async for chunk in rest:
                yield chunk
        self._ended = True

    def _take(self, chunk: bytes) -> bytes:
        """What of a chunk goes to the client as it is: all, unless a worker breaks off."""
        if self._held:
            self._held += chunk
            return b""
        if not self._resumable or self._running.abort_asked:
            return chunk
        if not (self._attempt.closely_read or b'"abort"' in chunk):
            self._last = chunk
            return chunk
        passed = 0
        for raw in split_events(chunk):
            event = read_event(raw)
            if event is not None:
                before = _last_event(self._last) if self._last else self._attempt.whole
                whole, self._last = self._attempt.add(event), b""
                if aborted(whole):
                    self._held, self._broken_off = chunk[passed:], _fuller(before, whole)
                    break
                self._passed = whole
            passed += len(raw)
        return chunk[:passed]

    async def _rest(self) -> AsyncGenerator[bytes]:
        """What follows the first attempt: the events of others, or the abort that it ended with."""
        if self._broken_off is None:
            return
        self._incremental = self._attempt.incremental
        going_on = self._retried() if self._owner.policy == "retry" else self._resumed(self._broken_off)
        async with aclosing(going_on) as chunks:
            async for chunk in chunks:
                yield chunk
        if self._held:
            yield self._held

    async def _retried(self) -> AsyncGenerator[bytes]:
        """Whole attempts, for as long as the client has seen nothing."""
        for attempt in range(1, self._owner.attempts):
            if self._passed is not None or self._broken_off is None:
                return
            reply = await self._owner.again(self._request, self._running, self._call_next, attempt + 1)
            if reply is None or reply.chunks is None:
                return
            self._inner, self._attempt = reply.chunks, Attempt()
            self._held, self._broken_off = b"", None
            async for chunk in self._inner:
                if passed := self._take(chunk):
                    yield passed

    async def _resumed(self, broken_off: Json) -> AsyncGenerator[bytes]:
        """The answer goes on, event by event, from what there was when a worker broke off.

        Where no other attempt could be made, what is held stays as it is.
        """
        resumption = self._owner.resumption(self._request, self._running)
        answer = resumption.read(broken_off)
        worker, going_on = self._reply.worker, False
        while answer is not None and answer.aborted:
            complete = resumption.complete(answer)
            if complete is not None:
                answer, going_on = complete, True
                break
            fresh = self._passed is None
            reply = await resumption.attempt(answer, worker, self._call_next, fresh=fresh)
            if reply is None or reply.chunks is None:
                break
            going_on = True
            worker, self._inner, self._attempt = reply.worker, reply.chunks, Attempt()
            before: Json | None = None
            async for raw, whole in self._wholes():
                second = resumption.read(_fuller(before, whole)) if whole is not None else None
                if second is None:
                    yield raw
                    continue
                before, answer = whole, await resumption.join(second)
                if answer.meta.get("finish_reason") is not None:
                    break
                yield self._event(answer)
            await self._inner.aclose()
        if going_on and answer is not None:
            self._held = self._event(answer) + _DONE

    async def _wholes(self) -> AsyncIterator[tuple[bytes, Json | None]]:
        """The events of a later attempt, and what it has given after each; None where that is no answer."""
        async for chunk in self._inner:
            for raw in split_events(chunk):
                event = read_event(raw)
                if event is not None:
                    yield raw, self._attempt.add(event)
                elif raw.strip() != _DONE.strip():
                    yield raw, None

    def _event(self, answer: Answer) -> bytes:
        """The answer so far as the client's next event, in the way its stream began."""
        if self._incremental is None:
            self._incremental = self._attempt.incremental
        reply = answer.reply
        if self._incremental and self._passed is not None:
            reply = _beyond(reply, self._passed)
        self._passed = answer.reply
        return b"data: " + _encode(reply) + b"\n\n"


def split_events(chunk: bytes) -> Iterator[bytes]:
    """The server-sent events in a chunk of whole ones."""
    return (match[0] for match in _EVENT.finditer(chunk))


def read_event(raw: bytes) -> Json | None:
    """The answer in a server-sent event; None for one that has none: `[DONE]`, or an error."""
    data = b"\n".join(line[5:] for line in raw.splitlines() if line.startswith(b"data:"))
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        event = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("meta_info"), dict) else None


def _last_event(chunk: bytes) -> Json | None:
    """The last answer in a chunk."""
    return next(filter(None, map(read_event, reversed(list(split_events(chunk))))), None)


def _fuller(before: Json | None, whole: Json) -> Json:
    """A reply that a worker broke off, with all that it had given: the last event may hold less of it."""
    if before is None or not aborted(whole):
        return whole
    seen = [reply.get("output_ids") for reply in (before, whole)]
    logprobs = [reply["meta_info"].get("output_token_logprobs") for reply in (before, whole)]
    counts = [
        [len(given) for given in pair if isinstance(given, list)] for pair in zip(seen, logprobs, strict=True)
    ]
    if counts[0] and min(counts[0]) > min(counts[1], default=0):
        kept = before["meta_info"] | {"finish_reason": whole["meta_info"]["finish_reason"]}
        return before | {"meta_info": kept}
    return whole


def _is_incremental(before: Json, event: Json) -> bool | None:
    """Whether the second of two events holds only what is new; None if both ways of reading it hold."""
    earlier, ids = before.get("output_ids"), event.get("output_ids")
    meta = event.get("meta_info")
    count = meta.get("completion_tokens") if isinstance(meta, dict) else None
    if not isinstance(ids, list) or not isinstance(earlier, list) or type(count) is not int or not earlier:
        return None
    return len(ids) < count


def _added(before: Json, event: Json) -> Json:
    """`before` and what is new in `event`. Lists in `meta_info` may be new or whole."""
    new = len(event["output_ids"])
    meta: Json = dict(event["meta_info"])
    for name, value in before["meta_info"].items():
        more = meta.get(name)
        if name.startswith("output_") and isinstance(value, list) and isinstance(more, list):
            meta[name] = value + more if len(more) == new else more
        elif name.startswith("input_") and value and not more:
            meta[name] = value
    whole = before | event | {"meta_info": meta, "output_ids": before["output_ids"] + event["output_ids"]}
    if isinstance(before.get("text"), str) and isinstance(event.get("text"), str):
        whole["text"] = before["text"] + event["text"]
    return whole


def _beyond(reply: Json, passed: Json) -> Json:
    """What is in a reply beyond what the client has seen of it."""
    beyond = dict(reply)
    for name in ("output_ids", "text"):
        if isinstance(reply.get(name), list | str):
            beyond[name] = reply[name][len(passed.get(name) or "") :]
    seen = len(passed.get("output_ids") or "")
    beyond["meta_info"] = {
        name: value[seen:] if name.startswith("output_") and isinstance(value, list) else value
        for name, value in reply["meta_info"].items()
    }
    return beyond
