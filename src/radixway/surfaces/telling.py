"""What is told of a request when it has ended: a line in the log, and spans where it is traced."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from radixway.pipeline import Request, Used
from radixway.telemetry import log_fields
from radixway.telemetry.tracing import Ended, Span, spans_of_request
from radixway.web import Scope

log = logging.getLogger("radixway.requests")


def log_request(request: Request, status: int, first_byte_s: float | None, error: str | None) -> None:
    """One line, without a word of what was asked or answered."""
    level = logging.INFO if status < 500 else logging.WARNING
    if not log.isEnabledFor(level):
        return
    journal = request.journal
    fields: dict[str, Any] = {
        "request": request.id,
        "trace": None if journal.trace is None else journal.trace.id,
        "tenant": request.tenant,
        "surface": request.surface,
        "model": request.known_model,
        "worker": request.asked[-1] if request.asked else None,
        "status": status,
        "error": error,
        "total_ms": round(journal.elapsed_s() * 1e3, 3),
        "first_byte_ms": None if first_byte_s is None else round(first_byte_s * 1e3, 3),
        "attempts": len(request.asked),
    }
    for step, _, said in reversed(journal.entries):
        if step == "tokens" and isinstance(said, Used):
            fields["prompt_tokens"] = said.prompt_tokens
            fields["completion_tokens"] = said.completion_tokens
            fields["cached_tokens"] = said.cached_tokens
            break
    log_fields(log, level, "request", fields)


def spans_to_make(
    request: Request,
    scope: Scope,
    status: int,
    first_byte_s: float | None,
    error: str | None,
    *,
    with_prompt: bool,
) -> Callable[[], list[Span]]:
    """Makes a traced request's spans when somebody wants them: not here, where the next request waits."""
    journal, trace = request.journal, request.journal.trace
    assert trace is not None
    ended = Ended(
        surface=request.surface,
        method=scope["method"],
        path=scope["path"],
        tenant=request.tenant,
        model=request.model,
        answering=request.answering,
        workers=tuple(request.asked),
        status=status,
        error=error,
        first_byte_s=first_byte_s,
        total_s=journal.elapsed_s(),
        prompt=request.raw if with_prompt else None,
    )
    return partial(spans_of_request, journal, trace, ended)
