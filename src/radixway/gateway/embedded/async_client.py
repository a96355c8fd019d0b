"""Calls within an event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self
from urllib.parse import quote

import msgspec

from radixway.core.http import App
from radixway.core.http.server_sent_events import EventBuffer, iterate_data
from radixway.core.pipeline import CHAT_COMPLETIONS, COMPLETIONS, GENERATE
from radixway.gateway.embedded.asgi_exchange import InFlightExchanges, InProcessExchange
from radixway.gateway.embedded.messages import (
    Answer,
    Messages,
    answer_text,
    encode_body,
    error_from_answer,
    error_from_event,
    make_chat_body,
    merge_headers,
    trace_headers,
    without_stream,
)

Headers = Mapping[str, str] | None
Task = Literal["intent", "pii", "security", "combined"]


class AsyncRadixway:
    """An open gateway. Made by `Radixway`, and the event loop's in which it was opened.

    Fields of a call are those of the bodies over HTTP. Every call raises RadixwayError in place of an answer.
    Cancelling a call leaves it: its worker stops.
    """

    def __init__(self, app: App, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = headers
        self._in_flight = InFlightExchanges()

    async def close(self) -> None:
        """End calls under way with an error. `Radixway` calls this when it is closed."""
        await self._in_flight.close_all()

    async def chat(
        self, messages: Messages, *, model: str = "auto", headers: Headers = None, **fields: Any
    ) -> Answer:
        """Complete a chat; `messages` as over HTTP, or what a user says."""
        body = without_stream(make_chat_body(messages, model, fields))
        return await self.call("POST", CHAT_COMPLETIONS.path, body, headers)

    def stream_chat(
        self, messages: Messages, *, model: str = "auto", headers: Headers = None, **fields: Any
    ) -> Stream:
        """Stream a chat completion of `messages`, event by event."""
        return self.stream(CHAT_COMPLETIONS.path, make_chat_body(messages, model, fields), headers)

    async def complete(
        self, prompt: str | Sequence[Any], *, model: str = "auto", headers: Headers = None, **fields: Any
    ) -> Answer:
        """Complete `prompt`, a text or token ids."""
        body = without_stream({"model": model, "prompt": prompt, **fields})
        return await self.call("POST", COMPLETIONS.path, body, headers)

    def stream_complete(
        self, prompt: str | Sequence[Any], *, model: str = "auto", headers: Headers = None, **fields: Any
    ) -> Stream:
        """Stream the completion of `prompt`, event by event."""
        return self.stream(COMPLETIONS.path, {"model": model, "prompt": prompt, **fields}, headers)

    async def generate(self, *, headers: Headers = None, **fields: Any) -> Answer:
        """SGLang's call: `text` or `input_ids`, and `sampling_params`."""
        return await self.call("POST", GENERATE.path, without_stream(fields), headers)

    def stream_generate(self, *, headers: Headers = None, **fields: Any) -> Stream:
        """Stream the answer of SGLang's call, event by event."""
        return self.stream(GENERATE.path, fields, headers)

    async def explain(self, request_id: str) -> dict[str, Any]:
        """Return every step and decision of the recent request `request_id`."""
        tree: dict[str, Any] = (await self.call("GET", f"/explain/{quote(request_id, safe='')}")).json()
        return tree

    async def classify(self, text: str, task: Task = "intent", **options: Any) -> dict[str, Any]:
        """Classify a text by `task`: its domain, its personal data, attacks, or all of these."""
        body = {"text": text} | ({"options": options} if options else {})
        tree: dict[str, Any] = (await self.call("POST", f"/api/v1/classify/{task}", body)).json()
        return tree

    async def call(self, method: str, path: str, body: Any = None, headers: Headers = None) -> Answer:
        """Send any call that the gateway has over HTTP (docs/http.md); `body` becomes JSON, unless it is
        bytes."""
        exchange = self._exchange(method, path, body, headers)
        await self._in_flight.start_exchange(exchange)
        try:
            content = await exchange.read_body()
        finally:
            await self._in_flight.end_exchange(exchange)
        if exchange.status >= 400:
            raise error_from_answer(exchange.status, exchange.headers, content)
        return Answer(exchange.status, exchange.headers, content)

    def stream(self, path: str, body: Mapping[str, Any], headers: Headers = None) -> Stream:
        """An answer of server-sent events; `body` is asked for with `stream: true`."""
        return Stream(self._exchange("POST", path, {**body, "stream": True}, headers), self._in_flight)

    def _exchange(self, method: str, path: str, body: Any, headers: Headers) -> InProcessExchange:
        every = merge_headers({"content-type": "application/json"}, trace_headers(), self._headers, headers)
        return InProcessExchange(self._app, method, path, every.items(), encode_body(body))


class Stream:
    """The events of one answer as objects, in their order, each as soon as it is there.

    Iterate over it within `async with`; leaving that early stops the worker. Raises RadixwayError where
    nothing is answered, and in the middle where the answer breaks off.
    """

    def __init__(self, exchange: InProcessExchange, in_flight: InFlightExchanges) -> None:
        self._exchange = exchange
        self._in_flight = in_flight
        self._buffer = EventBuffer()
        self._events: deque[bytes] = deque()
        """Data of events not read yet."""
        self._ended = False

    async def __aenter__(self) -> Self:
        """Ask, and wait until the answer begins."""
        exchange = self._exchange
        await self._in_flight.start_exchange(exchange)
        if exchange.status >= 400:
            try:
                raise error_from_answer(exchange.status, exchange.headers, await exchange.read_body())
            finally:
                await self.aclose()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def request_id(self) -> str:
        """Return the id that `explain` takes."""
        return self._exchange.headers.get("x-request-id", "")

    @property
    def worker(self) -> str:
        """Return the worker that answers."""
        return self._exchange.headers.get("x-radixway-worker", "")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next event, decoded. Who is cancelled here has missed nothing, and may ask again."""
        # No generator: that would end where its reader is cancelled.
        while True:
            while self._events:
                event = self._events.popleft()
                if (failure := error_from_event(event, self.request_id)) is not None:
                    self._ended = True
                    raise failure
                return msgspec.json.decode(event)
            if self._ended:
                raise StopAsyncIteration
            part = await self._exchange.next_part()
            if part is None:
                self._ended = True
            else:
                self._events.extend(iterate_data(self._buffer.take_events(part)))

    def texts(self) -> StreamTexts:
        """Yield what each event adds to the text of the first choice."""
        return StreamTexts(self)

    async def aclose(self) -> None:
        """Leave."""
        await self._in_flight.end_exchange(self._exchange)


class StreamTexts:
    """Reads the text that each event of a stream adds."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._so_far = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            event = await anext(self._stream)
            text = answer_text(event)
            if isinstance(event, dict) and "choices" not in event:  # `generate` sends all of it each time
                text, self._so_far = text[self._so_far :], max(self._so_far, len(text))
            if text:
                return text
