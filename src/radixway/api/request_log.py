"""The end of a request: the last entry of its journal, its line in the log, and its spans if traced."""

import logging
from functools import partial
from typing import Any, Self

import msgspec

from radixway.core.http import HttpError
from radixway.core.pipeline import Chunks, Next, Reply, Request, TokenUsage
from radixway.core.telemetry import log_fields
from radixway.core.telemetry.tracing import (
    MAX_PROMPT_BYTES,
    FinishedRequest,
    RequestTracer,
    spans_of_request,
)
from radixway.routing import DefaultModelResolver


class RequestSummary(msgspec.Struct, gc=False):
    """The last entry of a journal."""

    status: int
    """The status sent; 499 (client closed request) while none was."""
    first_byte_s: float | None
    """Seconds from the request's arrival to the first byte of its answer; None if nothing was sent."""
    model: str | None
    """The model that its worker was asked for, or that answered once before."""
    category: str | None
    decision: str | None
    last_byte_s: float | None = None
    """Seconds from the request's arrival until the last bytes of its answer were given to its connection: a
    client may go on from then, whenever this entry is written. None if the answer did not end."""

    def explain(self) -> dict[str, Any]:
        """Return the fields for the journal, without unknown ones."""
        fields: dict[str, Any] = {"status": self.status}
        if self.first_byte_s is not None:
            fields["first_byte_ms"] = round(self.first_byte_s * 1e3, 3)
        named = {"model": self.model, "category": self.category, "decision": self.decision}
        return fields | {name: value for name, value in named.items() if value is not None}


def summarize_request(
    request: Request, status: int, first_byte_s: float | None, last_byte_s: float | None
) -> RequestSummary:
    """Build the last entry of the journal of `request`."""
    known = None if request.routing.metrics_model == "unknown" else request.routing.metrics_model
    return RequestSummary(
        status,
        first_byte_s,
        request.routing.resolved_model or known,
        request.semantics.category,
        request.semantics.decision,
        last_byte_s,
    )


log = logging.getLogger("radixway.requests")


class RequestLine(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The line that a request leaves in the log; what is None is left out."""

    request: str
    trace: str | None = None
    tenant: str
    surface: str
    model: str
    worker: str | None = None
    status: int
    error: str | None = None
    total_ms: float
    first_byte_ms: float | None = None
    attempts: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


def log_request(request: Request, status: int, first_byte_s: float | None, error: str | None) -> None:
    """Log one line about `request`, without a word of what was asked or answered."""
    level = logging.INFO if status < 500 else logging.WARNING
    if not log.isEnabledFor(level):
        return
    journal, attempted = request.journal, request.routing.attempted_workers
    line = RequestLine(
        request=request.id,
        trace=None if journal.trace is None else journal.trace.id,
        tenant=request.caller.tenant,
        surface=request.endpoint.name,
        model=request.routing.metrics_model,
        worker=attempted[-1] if attempted else None,
        status=status,
        error=error,
        total_ms=_rounded_ms(journal.elapsed_s()),
        first_byte_ms=None if first_byte_s is None else _rounded_ms(first_byte_s),
        attempts=len(attempted),
    )
    used = journal.latest_decision(TokenUsage)
    if used is not None:
        line.prompt_tokens = used.prompt_tokens
        line.completion_tokens = used.completion_tokens
        line.cached_tokens = used.cached_tokens
    log_fields(log, level, "request", line)


def _rounded_ms(seconds: float) -> float:
    return int(seconds * 1e6 + 0.5) / 1e3  # a third of what `round` takes


def export_request_trace(
    tracing: RequestTracer | None,
    request: Request,
    method: str | None,
    path: str,
    status: int,
    first_byte_s: float | None,
    error: str | None,
) -> None:
    """Export the spans of `request` if it is traced; they are built on export, not here.

    `method`: None for a request that did not come over HTTP; `path` then names the operation.
    """
    journal, trace = request.journal, request.journal.trace
    if tracing is None or trace is None or not journal.is_traced:
        return
    ended = FinishedRequest(
        surface=request.endpoint.name,
        operation=request.endpoint.operation,
        method=method,
        path=path,
        tenant=request.caller.tenant,
        model=request.model,
        resolved_model=request.routing.resolved_model,
        workers=tuple(request.routing.attempted_workers),
        status=status,
        error=error,
        first_byte_s=first_byte_s,
        total_s=journal.elapsed_s(),
        prompt=request.raw[:MAX_PROMPT_BYTES] if tracing.records_prompts and request.form is None else None,
    )
    tracing.export_trace(partial(spans_of_request, journal, trace, ended))


class TracedPipeline:
    """A pipeline for the gateway's own requests, which no `RequestHandler` logs: answers and titles of chats.

    The log line and the trace are written when the caller closes the request's open streams.
    """

    def __init__(
        self, pipeline: Next, tracing: RequestTracer | None, operation: str, models: DefaultModelResolver
    ) -> None:
        """`operation`: the name of its spans. `models`: resolves the aliases that requests name."""
        self._pipeline = pipeline
        self._tracing = tracing
        self._operation = operation
        self._models = models

    async def __call__(self, request: Request) -> Reply:
        """Return the pipeline's reply to `request`. Raises what the pipeline raises."""
        if self._tracing is not None:
            request.journal.trace = self._tracing.start_trace(None, believed=True)
        log_on_close = _LoggedChunks(request, self._tracing, self._operation)
        named = None if request.model is None else self._models.resolve_model(request.model, None)
        try:
            if named is not None:
                request.model = named
                request.edit(model=named)
            reply = await self._pipeline(request)
        except HttpError as error:
            log_on_close.status, log_on_close.error = error.status, error.code
            raise
        finally:
            request.open_streams.append(log_on_close)  # closed last, when all is known
        log_on_close.status, log_on_close.first_byte_s = reply.status, request.journal.elapsed_s()
        return reply


class _LoggedChunks(Chunks):
    """Logs the request when it is closed."""

    def __init__(self, request: Request, tracing: RequestTracer | None, operation: str) -> None:
        self.status = 499
        self.error: str | None = None
        self.first_byte_s: float | None = None
        self._request: Request | None = request
        self._tracing = tracing
        self._operation = operation

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        request, self._request = self._request, None
        if request is None:
            return
        log_request(request, self.status, self.first_byte_s, self.error)
        export_request_trace(
            self._tracing, request, None, self._operation, self.status, self.first_byte_s, self.error
        )
