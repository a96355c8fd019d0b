"""An answer as it is streamed, with what it took, and a button that ends it."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any
from uuid import uuid4

import msgspec
from nicegui import ui

from radixway.console.components import draw_facts
from radixway.console.gateway_calls import CallRefusedError, GatewayCalls
from radixway.console.page import PageVisit
from radixway.core.http.server_sent_events import iterate_data, read_events

_REDRAW_S = 0.05
"""Tokens within this time are drawn at once; each would be a message to the browser otherwise."""


class AnswerPanel:
    """Draws one answer in the element it was made in."""

    def __init__(self, visit: PageVisit) -> None:
        self._visit = visit
        self.request_id = f"playground-{uuid4().hex}"
        self._began = perf_counter()
        self._first_s: float | None = None
        self._last_s = 0.0
        self._pieces: list[str] = []
        self._usage: Mapping[str, Any] = {}
        self._finish: str | None = None
        self._drawn_at = 0.0
        self._thought = ui.label().classes("rw-text rw-muted")
        self._thought.set_visibility(False)
        self._text = ui.label().classes("rw-text rw-answer").props('aria-live="polite"')
        self._figures = ui.element("div")

    async def stream_answer(self, gateway: GatewayCalls, body: Mapping[str, Any]) -> None:
        """Draw the answer of `gateway` to `body` as it comes; cancelling it stops the worker too.

        Raises ConsoleCallError.
        """
        request = {**body, "stream": True, "stream_options": {"include_usage": True}}
        headers = {"x-request-id": self.request_id}
        try:
            async with gateway.stream_answer(
                "POST", "/v1/chat/completions", body=request, headers=headers
            ) as answer:
                async for event in read_events(answer.content.iter_any()):
                    for data in iterate_data(event):
                        self._add_event(msgspec.json.decode(data))
        finally:
            self._draw_answer()

    def _add_event(self, event: Mapping[str, Any]) -> None:
        if "error" in event:
            error = event["error"]
            message = error.get("message", error) if isinstance(error, dict) else error
            raise CallRefusedError(502, str(message))
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            self._finish = choice.get("finish_reason") or self._finish
            tool_calls = map(_format_tool_call, delta.get("tool_calls") or ())
            words = (delta.get("content") or "") + "".join(tool_calls)
            thought = delta.get("reasoning_content") or ""
            if thought:
                self._thought.set_visibility(True)
                self._thought.text += thought
            if (words or thought) and self._first_s is None:
                self._first_s = perf_counter() - self._began
            if words:
                self._pieces.append(words)
                self._last_s = perf_counter() - self._began
        if perf_counter() - self._drawn_at >= _REDRAW_S:
            self._draw_answer()

    def _draw_answer(self) -> None:
        self._drawn_at = perf_counter()
        self._text.text = "".join(self._pieces)
        self._figures.clear()
        with self._figures:
            draw_facts(self._answer_facts())

    def _answer_facts(self) -> list[tuple[str, str]]:
        say = self._visit.say
        rows = []
        if self._first_s is not None:
            rows.append((say("playground.ttft"), f"{self._first_s * 1e3:.0f} ms"))
        tokens = self._usage.get("completion_tokens")
        if tokens is not None:
            rows.append((say("playground.speed"), self._format_speed(tokens)))
            prompt = self._usage.get("prompt_tokens")
            rows.append((say("playground.tokens"), f"{prompt} + {tokens}"))
            details = self._usage.get("prompt_tokens_details") or {}
            rows.append((say("playground.cached"), str(details.get("cached_tokens") or 0)))
        if self._finish is not None:
            rows.append((say("playground.finish"), self._finish))
        return rows

    def _format_speed(self, tokens: int) -> str:
        """Format tokens per second; a reply that came at once has none."""
        if self._first_s is None or self._last_s - self._first_s < _REDRAW_S:
            return "–"
        return f"{(tokens - 1) / (self._last_s - self._first_s):.1f}"


def _format_tool_call(call: Mapping[str, Any]) -> str:
    """Format a piece of a tool call."""
    function = call.get("function") or {}
    return f"{function.get('name') or ''}{function.get('arguments') or ''}"
