"""Whole replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixway.semantics.guard.answers.answer_forms import AnswerForm, Json, decode_json, encode_json
from radixway.semantics.guard.answers.guard_report import AnswerReport
from radixway.semantics.guard.answers.watched_text import WatchedText

Watch = Callable[..., WatchedText]
"""Begins a text: `(where, in_json=…)`."""


async def guard_body(body: bytes, form: AnswerForm, watch: Watch, report: AnswerReport) -> bytes:
    """The body as the client gets it: the bytes that came, unless a text in it is to change.

    Raises GuardFailed for one that nobody can read, where such may not pass.
    """
    try:
        data: Any = decode_json(body)
    except (ValueError, RecursionError, OverflowError) as error:
        report.report_unreadable(error)
        return body
    changes = [
        await _guard_answer(answer, index, form, watch, report) for index, answer in form.list_answers(data)
    ]
    return encode_json(data) if any(changes) else body


async def _guard_answer(
    answer: Json, index: int, form: AnswerForm, watch: Watch, report: AnswerReport
) -> bool:
    changed, stopped = False, False
    for field in form.text_fields(answer):
        if stopped:
            field.set_text("")
            continue
        text = watch(f"{form.place_name(index)}.{field.name}", in_json=field.in_json)
        await text.append_text(field.text, last=True)
        report.collect_findings(text.all_judges())
        pieces = text.take_until(text.length)
        stopped = text.stopped
        if stopped or not all(piece.stayed for piece in pieces):
            changed = True
            field.set_text("".join(piece.text for piece in pieces))
    if stopped:
        form.mark_filtered(answer)
    if changed:
        form.drop_tokens(answer)
    return changed
