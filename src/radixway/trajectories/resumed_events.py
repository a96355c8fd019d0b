"""Streams of `/generate` that go on where a worker broke them off.

Most servers repeat the whole answer so far in each event. Those that send only what is new
(`--incremental-streaming-output`) are known by events with fewer tokens than they say there are. An event of
a later attempt is rewritten to begin with what the earlier ones gave, or, in a stream that sends only what is
new, to go on from there.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Self

import msgspec

from radixway.core.http.server_sent_events import DONE_DATA, DONE_EVENT, event_data, split_events, write_event
from radixway.core.pipeline import Chunks, Reply, SendChunk
from radixway.trajectories.partial_answer import Json, PartialAnswer, is_aborted
from radixway.trajectories.resumption import AnswerAttempts, RequestResumption

_decode = msgspec.json.Decoder().decode


class GenerateAttempt:
    """The events of one attempt, added up to the reply it has given so far."""

    def __init__(self) -> None:
        self.reply: Json | None = None
        self.incremental: bool | None = None
        """Events hold only what is new; None while that is not known."""

    @property
    def is_incremental(self) -> bool:
        """Return whether events hold only new output."""
        return self.incremental is not False

    def add_event(self, event: Json) -> Json:
        """The reply so far, this event included."""
        before = self.reply
        if before is not None and self.incremental is None:
            self.incremental = _is_incremental(before, event)
        if before is not None and self.incremental and isinstance(event.get("output_ids"), list):
            event = _merge_event(before, event)
        self.reply = event
        return event


def read_event(raw: bytes) -> Json | None:
    """The answer in the server-sent event `raw`; None for one that has none: `[DONE]`, an error."""
    data = event_data(raw)
    if not data.startswith(b"{"):
        return None
    try:
        event = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("meta_info"), dict) else None


def last_event(chunk: bytes) -> Json | None:
    """The last answer in a chunk."""
    return next(filter(None, map(read_event, reversed(list(split_events(chunk))))), None)


def fuller_reply(before: Json | None, latest: Json) -> Json:
    """A reply that a worker broke off, with all that it had given: the last event may hold less of it."""
    if before is None or not is_aborted(latest):
        return latest
    seen = [reply.get("output_ids") for reply in (before, latest)]
    logprobs = [reply["meta_info"].get("output_token_logprobs") for reply in (before, latest)]
    counts = [
        [len(given) for given in pair if isinstance(given, list)] for pair in zip(seen, logprobs, strict=True)
    ]
    if counts[0] and min(counts[0]) > min(counts[1], default=0):
        meta = before["meta_info"] | {"finish_reason": latest["meta_info"]["finish_reason"]}
        return before | {"meta_info": meta}
    return latest


def _is_incremental(before: Json, event: Json) -> bool | None:
    """Return whether the second event holds only new output; None if both readings fit."""
    earlier, ids = before.get("output_ids"), event.get("output_ids")
    meta = event.get("meta_info")
    count = meta.get("completion_tokens") if isinstance(meta, dict) else None
    if not isinstance(ids, list) or not isinstance(earlier, list) or type(count) is not int or not earlier:
        return None
    return len(ids) < count


def _merge_event(before: Json, event: Json) -> Json:
    """Merge `event` into `before`. Lists in `meta_info` may be new or whole."""
    new = len(_output_ids(event))
    meta: Json = dict(event["meta_info"])
    for name, value in before["meta_info"].items():
        more = meta.get(name)
        if name.startswith("output_") and isinstance(value, list) and isinstance(more, list):
            meta[name] = value + more if len(more) == new else more
        elif name.startswith("input_") and value and not more:
            meta[name] = value
    merged = before | event | {"meta_info": meta, "output_ids": _output_ids(before) + _output_ids(event)}
    if isinstance(event.get("text"), str):
        merged["text"] = _reply_text(before) + _reply_text(event)
    return merged


def reply_delta(reply: Json, passed: Json) -> Json:
    """The part of a reply beyond what the client has seen of it."""
    seen = len(_output_ids(passed))
    new = reply | {
        "meta_info": {
            name: value[seen:] if name.startswith("output_") and isinstance(value, list) else value
            for name, value in reply["meta_info"].items()
        }
    }
    if isinstance(reply.get("output_ids"), list):
        new["output_ids"] = _output_ids(reply)[seen:]
    if isinstance(reply.get("text"), str):
        new["text"] = _reply_text(reply)[len(_reply_text(passed)) :]
    return new


def _output_ids(reply: Json) -> list[int]:
    ids = reply.get("output_ids")
    return ids if isinstance(ids, list) else []


def _reply_text(reply: Json) -> str:
    text = reply.get("text")
    return text if isinstance(text, str) else ""


_encode = msgspec.json.encode


class ResumedEvents(Chunks):
    """The events of a request's attempts as one stream; bytes pass through as they are until one aborts."""

    def __init__(self, attempts: AnswerAttempts, first: Reply, *, resumable: bool) -> None:
        """`first` is the reply to the first attempt; unless `resumable`, an abort is passed on."""
        assert first.chunks is not None
        self._attempts = attempts
        self._reply = first
        self._inner: Chunks = first.chunks
        self._resumable = resumable
        self._attempt = GenerateAttempt()
        self._last = b""
        """The chunk before, unless its events were read."""
        self._withheld = b""
        """The aborting event, and what followed."""
        self._broken_off: Json | None = None
        """The aborted reply."""
        self._passed: Json | None = None
        """The reply as the client has it, if known."""
        self._incremental: bool | None = None
        """How the stream began; see `GenerateAttempt`."""
        self._ended = False
        self._events = self._iter_events()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def pass_on(self, send: SendChunk) -> None:
        async def relay(chunk: bytes) -> None:
            if passed := self._inspect_chunk(chunk):
                await send(passed)

        await self._inner.pass_on(relay)
        async with aclosing(self._later_attempts()) as rest:
            async for chunk in rest:
                await send(chunk)
        self._ended = True

    async def aclose(self) -> None:
        await self._events.aclose()
        await self._inner.aclose()
        unfinished, self._ended = not self._ended, True
        self._attempts.close_stream(unfinished=unfinished)

    async def _iter_events(self) -> AsyncGenerator[bytes]:
        async for chunk in self._inner:
            if passed := self._inspect_chunk(chunk):
                yield passed
        async with aclosing(self._later_attempts()) as rest:
            async for chunk in rest:
                yield chunk
        self._ended = True

    def _inspect_chunk(self, chunk: bytes) -> bytes:
        """Return what of a chunk the client gets unchanged: all, unless a worker aborts."""
        if self._withheld:
            self._withheld += chunk
            return b""
        if not self._resumable or self._attempts.running.is_abort_requested:
            return chunk
        if not (self._attempt.is_incremental or b'"abort"' in chunk):
            self._last = chunk
            return chunk
        passed = 0
        for raw in split_events(chunk):
            event = read_event(raw)
            if event is not None:
                before = last_event(self._last) if self._last else self._attempt.reply
                reply, self._last = self._attempt.add_event(event), b""
                if is_aborted(reply):
                    self._withheld, self._broken_off = chunk[passed:], fuller_reply(before, reply)
                    break
                self._passed = reply
            passed += len(raw)
        return chunk[:passed]

    async def _later_attempts(self) -> AsyncGenerator[bytes]:
        """Yield the events of later attempts, or the abort."""
        if self._broken_off is None:
            return
        await self._inner.aclose()  # its place at the worker is free for the next attempt
        self._incremental = self._attempt.incremental
        going_on = (
            self._retried_events()
            if self._attempts.section.policy == "retry"
            else self._resumed_events(self._broken_off)
        )
        async with aclosing(going_on) as chunks:
            async for chunk in chunks:
                yield chunk
        if self._withheld:
            yield self._withheld

    async def _retried_events(self) -> AsyncGenerator[bytes]:
        """Yield whole later attempts, while the client has seen nothing."""
        for attempt in range(1, self._attempts.section.attempts):
            if self._passed is not None or self._broken_off is None:
                return
            reply = await self._attempts.retry_stream(attempt + 1)
            if reply is None or reply.chunks is None:
                return
            self._inner, self._attempt = reply.chunks, GenerateAttempt()
            self._last, self._withheld, self._broken_off = b"", b"", None
            async for chunk in self._inner:
                if passed := self._inspect_chunk(chunk):
                    yield passed
            await self._inner.aclose()

    async def _resumed_events(self, broken_off: Json) -> AsyncGenerator[bytes]:
        """Continue the answer by events from where a worker aborted.

        Without another attempt the held events are sent as they are.
        """
        resumption = RequestResumption(self._attempts)
        answer = resumption.read_reply(broken_off)
        worker, going_on = self._reply.worker, False
        while answer is not None and answer.aborted:
            complete = resumption.complete_by_length(answer)
            if complete is not None:
                answer, going_on = complete, True
                break
            fresh = self._passed is None
            reply = await resumption.run_attempt(answer, worker, fresh=fresh)
            if reply is None or reply.chunks is None:
                break
            going_on = True
            worker, self._inner, self._attempt = reply.worker, reply.chunks, GenerateAttempt()
            before: Json | None = None
            async for raw, so_far in self._iter_attempt():
                second = resumption.read_reply(fuller_reply(before, so_far)) if so_far is not None else None
                if second is None:
                    yield raw
                    if b'"error"' in raw:  # the attempt's last word
                        self._withheld = b""
                        return
                    continue
                before, answer = so_far, await resumption.join_answer(second)
                if answer.meta.get("finish_reason") is not None:
                    break
                yield self._encode_answer(answer)
            await self._inner.aclose()
        if going_on and answer is not None:
            self._withheld = self._encode_answer(answer) + DONE_EVENT

    async def _iter_attempt(self) -> AsyncIterator[tuple[bytes, Json | None]]:
        """Yield each event of a later attempt and its answer so far; None for no answer."""
        async for chunk in self._inner:
            for raw in split_events(chunk):
                event = read_event(raw)
                if event is not None:
                    yield raw, self._attempt.add_event(event)
                elif event_data(raw) != DONE_DATA:
                    yield raw, None

    def _encode_answer(self, answer: PartialAnswer) -> bytes:
        """Encode the answer so far as the client's next event, as its stream began."""
        if self._incremental is None:
            self._incremental = self._attempt.incremental
        reply = answer.reply
        if self._incremental and self._passed is not None:
            reply = reply_delta(reply, self._passed)
        self._passed = answer.reply
        return write_event(_encode(reply))
