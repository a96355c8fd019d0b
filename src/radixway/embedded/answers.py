"""Answers as Python reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; of several with one name, the last."""
    body: bytes
    """As the worker wrote it."""

    @property
    def request_id(self) -> str:
        """For `explain`."""
        return self.headers.get("x-request-id", "")

    @property
    def worker(self) -> str:
        """Who answered; empty where nobody was asked."""
        return self.headers.get("x-radixway-worker", "")

    def json(self) -> Any:
        """The body. Raises ValueError where it is no JSON."""
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        """What the model said: the first choice of a chat or a completion, or the text of `generate`."""
        return answer_text(self.json())


def answer_text(told: Any) -> str:
    """The text in an answer, or what an event adds to it; of `generate`, all of it so far."""
    if isinstance(told, list):
        told = told[0] if told else None
    if not isinstance(told, dict):
        return ""
    choices = told.get("choices")
    if not isinstance(choices, list):
        said = told.get("text")
    else:
        first = next((each for each in choices if isinstance(each, dict) and not each.get("index")), {})
        message = first.get("message") or first.get("delta")
        said = message.get("content") if isinstance(message, dict) else first.get("text")
    return said if isinstance(said, str) else ""
