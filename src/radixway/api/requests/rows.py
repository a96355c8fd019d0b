"""A request in one line, read from its journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from pydantic import BaseModel

from radixway.api.request_log import RequestSummary
from radixway.core.pipeline import TokenUsage
from radixway.core.telemetry import Journal
from radixway.core.tenants import ChargedUsage, TokenCost
from radixway.routing import PairChoice, WorkerChoice

Flag = Literal[
    "stream",
    "queued",
    "retried",
    "hedged",
    "fallback",
    "resumed",
    "split",
    "cache_hit",
    "guard",
    "blocked",
    "client_left",
    "broken",
    "error",
]
"""What was out of the ordinary. `split`: one worker prefilled and another decoded. `guard`: the guard found
something. `broken`: a stream was cut after its first byte."""

FLAGS: tuple[str, ...] = get_args(Flag)

PriceOf = Callable[[str, int, int], TokenCost]
"""What so many tokens of a prompt and of an answer cost, by the model's name."""

_BLOCKS = frozenset({"pii_policy_denied", "jailbreak_block", "blocked_by_rule"})
"""Codes of errors of the guard's and of rules that block."""


class RequestRow(BaseModel):
    """One request. What nobody knows of it is null."""

    id: str
    trace_id: str | None
    """Of the trace that is kept of it, if one is."""
    began_at: float
    """Seconds since the epoch."""
    tenant: str | None
    user: str | None
    session: str | None
    surface: str | None
    asked: str | None
    """The model that the client asked for."""
    model: str | None
    """The one that its worker was asked for."""
    worker: str | None
    policy: str | None
    """By which its worker was chosen."""
    status: int | None
    error: str | None
    """The code of its error."""
    ttft_ms: float | None
    """To the first byte of the answer, from the request's arrival."""
    total_ms: float
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    """Of the prompt's, those that its worker had cached, as it says."""
    expected_cached_tokens: int | None
    """The same as the gateway expected when it chose."""
    estimated: bool
    """The worker did not report its tokens."""
    cost: float | None
    """What the tenant was charged; without tenants, what the reported tokens would cost."""
    currency: str | None
    category: str | None
    decision: str | None
    flags: list[Flag]


_STEPS: dict[str, Flag] = {
    "queue": "queued",
    "retry": "retried",
    "retry_aborted": "retried",
    "hedge": "hedged",
    "fallback": "fallback",
    "semantic_fallback": "fallback",
    "resume": "resumed",
    "prefill": "split",
    "guard_pii": "guard",
    "guard_jailbreak": "guard",
    "guard_answer": "guard",
    "guard_error": "guard",
    "client_left": "client_left",
}
"""Steps that say all by being there."""


def build_row(journal: Journal, price_of: PriceOf) -> RequestRow:
    """Build the row of a finished request from its `journal`."""
    return RequestRow.model_construct(**read_row_fields(journal, price_of))


def read_row_fields(journal: Journal, price_of: PriceOf) -> dict[str, Any]:
    """Read the fields of a `RequestRow` from `journal`."""
    row: dict[str, Any] = dict.fromkeys(_UNKNOWN)
    row["id"], row["began_at"] = journal.request_id, journal.began_at
    row["trace_id"] = journal.trace_id
    row["tenant"], row["user"], row["session"] = journal.tenant, journal.user, journal.session
    row["total_ms"], row["estimated"] = 0.0, False
    flags: set[str] = set()
    used: TokenUsage | None = None
    charged: ChargedUsage | None = None
    for step, at_s, said in journal.entries:
        flag = _STEPS.get(step)
        if flag is not None:
            flags.add(flag)
        if isinstance(said, dict):
            _read_step_fields(step, said, row, flags)
        elif isinstance(said, TokenUsage):
            used = said if used is None else used + said
        elif isinstance(said, ChargedUsage):
            charged = said
        elif isinstance(said, WorkerChoice):
            _read_choice(said, row)
        elif isinstance(said, PairChoice):
            _read_choice(said.answers, row)
        elif isinstance(said, RequestSummary):
            row["total_ms"] = round(at_s * 1e3, 3)
            _read_end(said, row)
    if used is not None:
        _read_tokens(used, row, price_of)
    if charged is not None:
        _read_charge(charged, row)
    row["flags"] = [name for name in FLAGS if name in flags]
    return row


def _read_step_fields(step: str, said: dict[str, Any], row: dict[str, Any], flags: set[str]) -> None:
    if step == "receive":
        row["surface"], row["asked"] = said.get("surface"), said.get("model")
        if said.get("stream"):
            flags.add("stream")
    elif step == "answer":
        row["worker"] = said.get("worker")
    elif step == "error":
        row["error"] = said.get("code")
        flags.add("error")
        if said.get("code") == "stream_broken":
            flags.add("broken")
        if said.get("code") in _BLOCKS:
            flags.add("blocked")
    elif step == "semantic_cache":
        if "entry" in said:
            flags.add("cache_hit")
    elif said.get("blocked") is True or said.get("action") == "block":
        flags.add("blocked")


def _read_choice(choice: WorkerChoice, row: dict[str, Any]) -> None:
    row["worker"], row["policy"] = choice.worker.name, choice.policy
    if choice.request.tokens:
        row["expected_cached_tokens"] = choice.cached_tokens


def _read_end(end: RequestSummary, row: dict[str, Any]) -> None:
    row["status"], row["model"] = end.status, end.model
    row["category"], row["decision"] = end.category, end.decision
    if end.first_byte_s is not None:
        row["ttft_ms"] = round(end.first_byte_s * 1e3, 3)


def _read_tokens(used: TokenUsage, row: dict[str, Any], price_of: PriceOf) -> None:
    row["prompt_tokens"] = None if used.estimated and not used.prompt_tokens else used.prompt_tokens
    row["completion_tokens"] = used.completion_tokens
    row["cached_tokens"] = used.cached_tokens if used.tells_cached else None
    row["estimated"] = used.estimated
    price = price_of(row["model"] or "", used.prompt_tokens, used.completion_tokens)
    if price.currency:
        row["cost"], row["currency"] = round(price.cost, 9), price.currency


def _read_charge(charged: ChargedUsage, row: dict[str, Any]) -> None:
    """What its tenant was charged counts, also where a worker said otherwise, or nothing."""
    figures = charged.figures
    row["prompt_tokens"], row["completion_tokens"] = figures.prompt_tokens, figures.completion_tokens
    row["estimated"] = bool(figures.estimated)
    row["cost"], row["currency"] = None, None
    if charged.currency:
        row["cost"], row["currency"] = round(figures.cost, 9), charged.currency


_UNKNOWN: tuple[str, ...] = tuple(RequestRow.model_fields)
