"""Whole replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixway.guard.answers.forms import Form, Json
from radixway.guard.answers.json_text import decode, encode
from radixway.guard.answers.report import Report
from radixway.guard.answers.text import WatchedText

Watch = Callable[..., WatchedText]
"""Begins a text: `(where, in_json=…)`."""


async def guard_whole(body: bytes, form: Form, watch: Watch, report: Report) -> bytes:
    """The body as the client gets it: the bytes that came, unless a text in it is to change.

    Raises GuardFailed for one that nobody can read, where such may not pass.
    """
    try:
        data: Any = decode(body)
    except (ValueError, RecursionError, OverflowError) as error:
        report.unreadable(error)
        return body
    changes = [await _guard(answer, index, form, watch, report) for index, answer in form.answers(data)]
    return encode(data) if any(changes) else body


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
