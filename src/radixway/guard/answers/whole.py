"""Whole replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from radixway.guard.answers.forms import Form, Json
from radixway.guard.answers.report import Report
from radixway.guard.answers.text import WatchedText

Watch = Callable[..., WatchedText]
"""Begins a text: `(where, in_json=…)`."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.encode


async def guard_whole(body: bytes, form: Form, watch: Watch, report: Report) -> bytes:
    """The body as the client gets it: the bytes that came, unless a text in it is to change."""
    try:
        data: Any = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return body
    changes = [await _guard(answer, index, form, watch, report) for index, answer in form.answers(data)]
    return _encode(data) if any(changes) else body


async def _guard(answer: Json, index: int, form: Form, watch: Watch, report: Report) -> bool:
    changed, stopped = False, False
    for field in form.fields(answer):
        if stopped:
            field.set("")
            continue
        text = watch(f"{form.place(index)}.{field.name}", in_json=field.in_json)
        await text.grow(field.text, last=True)
        report.hear(text.all_judges())
        pieces = text.take_until(text.length)
        stopped = text.stopped
        if stopped or not all(piece.stayed for piece in pieces):
            changed = True
            field.set("".join(piece.text for piece in pieces))
    if stopped:
        form.cut(answer)
    if changed:
        form.drop_tokens(answer)
    return changed
