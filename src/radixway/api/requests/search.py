"""Rows of requests, read from their journals, and the search over the latest of them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import BaseModel

from radixway.api.request_log import RequestSummary
from radixway.core.config import ModelPricing
from radixway.core.pipeline import ReceivedRequest, TokenUsage, WorkerAnswer
from radixway.core.telemetry import Journal, JournalStore
from radixway.core.tenants import ChargedUsage, TokenCost
from radixway.routing import PairChoice, WorkerChoice

Flag = Literal[
    "stream",
    "queued",
    "retried",
    "hedged",
    "fallback",
    "overflow",
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
something. `overflow`: a hosted model answered in place of own workers. `broken`: a stream was cut after its
first byte."""

FLAGS: tuple[str, ...] = get_args(Flag)

PriceOf = Callable[[str, int, int], TokenCost]
"""Price of prompt and output tokens, by model."""

_BLOCKS = frozenset({"pii_policy_denied", "jailbreak_block", "blocked_by_rule"})
"""Error codes of the guard and of rules that block."""


class RequestRow(BaseModel):
    """A request's row; unknown fields are null."""

    id: str
    trace_id: str | None
    """Id of its trace, if one is kept."""
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
    provider: str | None
    """Who hosts that worker's models; null for own workers."""
    overflow: str | None
    """Why it left the own workers for the provider."""
    policy: str | None
    """By which its worker was chosen."""
    status: int | None
    error: str | None
    """The code of its error."""
    ttft_ms: float | None
    """Milliseconds from arrival to the first byte of the answer."""
    total_ms: float
    ended_at: float
    """Seconds since the epoch: when the last bytes of its answer were given to its connection."""
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    """Prompt tokens that the worker reports as cached."""
    expected_cached_tokens: int | None
    """The same as the gateway expected when it chose."""
    estimated: bool
    """The worker did not report its tokens."""
    cost: float | None
    """The tenant's charge; without tenants, the price of the reported tokens."""
    currency: str | None
    category: str | None
    decision: str | None
    blocked_by: str | None
    """Why it was blocked: the rule, the kinds of personal data, or the kind of attack."""
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
"""Journal steps that mean a flag by their presence."""


def build_row(journal: Journal, price_of: PriceOf) -> RequestRow:
    """Build the row of a finished request from its `journal`."""
    return RequestRow.model_construct(**read_row_fields(journal, price_of))


def read_row_fields(journal: Journal, price_of: PriceOf) -> dict[str, Any]:
    """Read the fields of a `RequestRow` from `journal`."""
    row: dict[str, Any] = dict.fromkeys(_UNKNOWN)
    row["id"], row["began_at"] = journal.request_id, journal.began_at
    row["trace_id"] = journal.trace_id
    row["tenant"], row["user"], row["session"] = journal.tenant, journal.user, journal.session
    row["total_ms"], row["ended_at"], row["estimated"] = 0.0, journal.began_at, False
    flags: set[str] = set()
    used: TokenUsage | None = None
    charged: ChargedUsage | None = None
    pricing: ModelPricing | None = None
    for step, at_s, detail in journal.entries:
        if step == "select":
            pricing = row["provider"] = row["overflow"] = None
        elif step == "hosted" and isinstance(detail, dict):
            pricing = _read_pricing(detail)
            row["provider"], row["overflow"] = detail.get("provider"), detail.get("overflow")
        flag = _STEPS.get(step)
        if flag is not None:
            flags.add(flag)
        if isinstance(detail, ReceivedRequest | WorkerAnswer):
            detail = detail.explain()
        if isinstance(detail, dict):
            _read_step_fields(step, detail, row, flags)
        elif step == "semantic":
            _read_blocking_rule(detail, row)
        elif isinstance(detail, TokenUsage):
            used = detail if used is None else used + detail
        elif isinstance(detail, ChargedUsage):
            charged = detail
        elif isinstance(detail, WorkerChoice):
            _read_choice(detail, row)
        elif isinstance(detail, PairChoice):
            _read_choice(detail.answers, row)
        elif isinstance(detail, RequestSummary):
            row["total_ms"] = round(at_s * 1e3, 3)
            row["ended_at"] += at_s if detail.last_byte_s is None else detail.last_byte_s
            _read_end(detail, row)
    if used is not None:
        _read_tokens(used, row, price_of, pricing)
    if charged is not None:
        _read_charge(charged, row)
    if row["overflow"] is not None:
        flags.add("overflow")
    row["flags"] = [name for name in FLAGS if name in flags]
    return row


def _read_step_fields(step: str, detail: dict[str, Any], row: dict[str, Any], flags: set[str]) -> None:
    if step == "receive":
        row["surface"], row["asked"] = detail.get("surface"), detail.get("model")
        if detail.get("stream"):
            flags.add("stream")
    elif step == "answer":
        row["worker"] = detail.get("worker")
    elif step == "error":
        row["error"] = detail.get("code")
        flags.add("error")
        if detail.get("code") == "stream_broken":
            flags.add("broken")
        if detail.get("code") in _BLOCKS:
            flags.add("blocked")
            row["blocked_by"] = row["blocked_by"] or detail.get("message")
    elif step == "semantic_cache":
        if "entry" in detail:
            flags.add("cache_hit")
    elif detail.get("blocked") is True or detail.get("action") == "block":
        flags.add("blocked")
        row["blocked_by"] = row["blocked_by"] or _block_reason(step, detail)


def _block_reason(step: str, detail: dict[str, Any]) -> str | None:
    """Return what a guard's `step` blocked for: kinds, never texts."""
    if step == "guard_clearing":
        return f"personal data: {', '.join(detail.get('denied') or ())}"
    if step == "guard_jailbreak":
        return f"attack: {detail.get('type')}"
    if step == "guard_answer":
        return f"answer: {detail.get('rule')}"
    if step == "guard_error":
        return f"{detail.get('guard')} could not be read"
    return f"rule: {detail.get('rule')}"


def _read_blocking_rule(detail: Any, row: dict[str, Any]) -> None:
    """Read the rule that blocks from `detail`, a decision; others are named at the end."""
    verdict = getattr(detail, "verdict", None)
    if verdict is not None and verdict.action == "block":
        row["blocked_by"] = f"rule: {verdict.rule_name}"


def _read_choice(choice: WorkerChoice, row: dict[str, Any]) -> None:
    row["worker"], row["policy"] = choice.worker.name, choice.policy
    if choice.request.tokens:
        row["expected_cached_tokens"] = choice.cached_tokens


def _read_end(end: RequestSummary, row: dict[str, Any]) -> None:
    row["status"], row["model"] = end.status, end.model
    row["category"], row["decision"] = end.category, end.decision
    if end.first_byte_s is not None:
        row["ttft_ms"] = round(end.first_byte_s * 1e3, 3)


def _read_pricing(detail: dict[str, Any]) -> ModelPricing | None:
    """Return the prices of the hosted worker that was asked, if it has any."""
    given = {name: detail[name] for name in ModelPricing.model_fields if name in detail}
    return ModelPricing(**given) if given else None


def _read_tokens(
    used: TokenUsage, row: dict[str, Any], price_of: PriceOf, pricing: ModelPricing | None
) -> None:
    row["prompt_tokens"] = None if used.estimated and not used.prompt_tokens else used.prompt_tokens
    row["completion_tokens"] = used.completion_tokens
    row["cached_tokens"] = used.cached_tokens if used.tells_cached else None
    row["estimated"] = used.estimated
    tokens = used.prompt_tokens, used.completion_tokens
    if pricing is not None:
        price = TokenCost(pricing.cost(*tokens), pricing.currency)
    else:
        price = price_of(row["model"] or "", *tokens)
    if price.currency:
        row["cost"], row["currency"] = round(price.cost, 9), price.currency


def _read_charge(charged: ChargedUsage, row: dict[str, Any]) -> None:
    """Take tokens and cost from the tenant's charge, whatever the worker reported."""
    row["prompt_tokens"], row["completion_tokens"] = charged.prompt_tokens, charged.completion_tokens
    row["estimated"] = charged.estimated
    row["cost"], row["currency"] = None, None
    if charged.currency:
        row["cost"], row["currency"] = round(charged.cost, 9), charged.currency


_UNKNOWN: tuple[str, ...] = tuple(RequestRow.model_fields)


MAX_EXAMINED = 20_000
"""Journals that one call looks at; its answer then says where to go on."""
_BATCH_SIZE = 50
"""Journals between two yields to the event loop: a millisecond or two, where each becomes a row."""


_NAMES = ("id", "trace_id", "model", "asked", "worker", "tenant", "user", "session", "error")


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """A search for requests; None matches everything."""

    text: str | None = None
    """Part of its id or its trace's, or of a name: tenant, user, session, model, worker. In any case."""
    tenant: str | None = None
    user: str | None = None
    session: str | None = None
    surface: str | None = None
    model: str | None = None
    """The requested model, or its worker's."""
    worker: str | None = None
    category: str | None = None
    decision: str | None = None
    status: tuple[int, int] | None = None
    """The least and the most."""
    flags: frozenset[str] = field(default_factory=frozenset)
    least_ms: float | None = None
    since: float | None = None
    """Earliest start, in seconds since the epoch."""
    until: float | None = None

    def may_match(self, journal: Journal) -> bool:
        """Return whether `journal` may match, as far as can be said without reading its entries."""
        return (
            _equals_filter(self.tenant, journal.tenant)
            and _equals_filter(self.user, journal.user)
            and _equals_filter(self.session, journal.session)
            and (self.since is None or journal.began_at >= self.since)
            and (self.until is None or journal.began_at < self.until)
        )

    def matches_row(self, row: dict[str, Any]) -> bool:
        """Return whether `row` matches."""
        if self.status is not None and not self.status[0] <= (row["status"] or 0) <= self.status[1]:
            return False
        if self.least_ms is not None and row["total_ms"] < self.least_ms:
            return False
        if self.model is not None and self.model not in (row["model"], row["asked"]):
            return False
        if self.flags and not self.flags.issubset(row["flags"]):
            return False
        if not all(
            _equals_filter(wanted, row[name])
            for name, wanted in (
                ("surface", self.surface),
                ("worker", self.worker),
                ("category", self.category),
                ("decision", self.decision),
            )
        ):
            return False
        if self.text is None:
            return True
        text = self.text.casefold()
        return any(text in found.casefold() for name in _NAMES if (found := row[name]) is not None)


@dataclass(slots=True)
class SearchPage:
    """A page of rows, newest first."""

    rows: list[RequestRow]
    numbers: list[int]
    """Of the rows' journals: the cursor after each."""
    next: int | None
    """Cursor of older ones, or None."""
    examined: int


class RequestSearch:
    """Looks through a book. Belongs to its event loop, which it lets go every millisecond or two."""

    def __init__(self, book: JournalStore, price_of: PriceOf, max_examined: int = MAX_EXAMINED) -> None:
        self._book = book
        self._price_of = price_of
        self._max_examined = max_examined

    async def search_requests(
        self,
        wanted: RequestFilter,
        before: int | None,
        limit: int,
        may_see: Callable[[Journal], bool] = lambda _: True,
    ) -> SearchPage:
        """Return the latest `limit` rows that match `wanted`, of journals before the number `before`."""
        page = SearchPage([], [], before, 0)
        while page.examined < self._max_examined:
            journals = self._book.journals_before(
                page.next, min(_BATCH_SIZE, self._max_examined - page.examined)
            )
            for journal in journals:
                page.examined += 1
                page.next = journal.number
                if not (may_see(journal) and wanted.may_match(journal)):
                    continue
                row = read_row_fields(journal, self._price_of)
                if not wanted.matches_row(row) or not self._book.is_newest(journal):
                    continue
                page.rows.append(RequestRow.model_construct(**row))
                page.numbers.append(journal.number)
                if len(page.rows) == limit:
                    if not self._book.journals_before(page.next, 1):
                        page.next = None
                    return page
            if not journals:
                page.next = None
                return page
            await asyncio.sleep(0)
        return page


def _equals_filter(wanted: str | None, found: str | None) -> bool:
    return wanted is None or wanted == found
