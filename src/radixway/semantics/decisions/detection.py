"""Before the cache: rules that block, and what a request's category wants of kept answers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from radixway.core.pipeline import Endpoint, GatewayError, Next, Reply, Request, SemanticContext
from radixway.semantics.decisions.cache_rules import CacheDefault
from radixway.semantics.decisions.losing_rules import explain_losing_rules
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import SemanticSnapshot
from radixway.semantics.decisions.verdict import DecisionVerdict, judge_blocks, judge_signals
from radixway.semantics.signals.base import SignalSet
from radixway.semantics.signals.question import RequestQuestion, question_of

NOT_CACHED = "category"
"""`CacheContext.bypass_reason` where the category, or the rule, is not to be cached."""


class RuleBlockedError(GatewayError):
    """A rule does not let the request pass."""

    status = 403
    code = "blocked_by_rule"


@dataclass(frozen=True, slots=True)
class RequestMeaning(SemanticContext):
    """The findings about a request whose model is left to the gateway."""

    snapshot: SemanticSnapshot
    question: RequestQuestion
    signals: SignalSet
    verdict: DecisionVerdict
    failed: tuple[str, ...]
    took_s: float


@dataclass(frozen=True, slots=True)
class BlockedDecision:
    """The journal's entry of a blocked request whose model is left to the gateway."""

    snapshot: SemanticSnapshot
    signals: SignalSet
    verdict: DecisionVerdict

    def explain(self) -> dict[str, Any]:
        """Names and figures only."""
        lost = explain_losing_rules(self.snapshot.rules, self.signals, self.verdict)
        return {
            "blocked": True,
            "rule": self.verdict.rule_name,
            "signals": self.signals.explain(),
        } | ({"lost": lost} if lost else {})


@dataclass(frozen=True, slots=True)
class BlockCheck:
    """And of one that names its model: only rules that block were asked."""

    step_name = "Checked"

    snapshot: SemanticSnapshot
    signals: SignalSet
    verdict: DecisionVerdict | None
    """None: none blocks it."""
    model: str | None
    failed: tuple[str, ...]

    def explain(self) -> dict[str, Any]:
        """Names and figures only."""
        return {
            "model": self.model,
            "rule": self.verdict.rule_name if self.verdict else None,
            "signals": self.signals.explain(),
            "failed": list(self.failed),
        }


class Detect:
    """A `pipeline.Middleware`. It judges only where that matters to the cache; the rest waits for a miss."""

    def __init__(
        self, snapshot: Callable[[], SemanticSnapshot], reader: SignalReader, cache: CacheDefault | None
    ) -> None:
        """`snapshot`: the current one. `cache`: None where there is no cache."""
        self._snapshot = snapshot
        self._reader = reader
        self._cache = cache

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether it has text: blocks apply whether or not a model is chosen."""
        return endpoint.has_text

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Raises RuleBlockedError where a rule says so."""
        snapshot = self._snapshot()
        if not request.endpoint.chooses_model:
            if snapshot.blocks:
                await self._check_blocks(snapshot, request)
            return await call_next(request)
        wanted = None if self._cache is None else self._cache.enabled
        if snapshot.is_auto(request.model):
            if snapshot.blocks or snapshot.guard_by_category or self._depends_on_category(snapshot):
                meaning = await find_meaning(snapshot, self._reader, request)
                enabled, request.cache.min_similarity = snapshot.cache_rules.rule_for(meaning.verdict)
                wanted = wanted if enabled is None else enabled
        elif snapshot.blocks:
            await self._check_blocks(snapshot, request)
        if wanted is False and request.cache.bypass_reason is None:
            request.cache.bypass_reason = NOT_CACHED
        return await call_next(request)

    def _depends_on_category(self, snapshot: SemanticSnapshot) -> bool:
        return self._cache is not None and (self._cache.by_category or bool(snapshot.cache_rules))

    async def _check_blocks(self, snapshot: SemanticSnapshot, request: Request) -> None:
        """Evaluate blocking rules only, for a request that names its model."""
        question = question_of(request)
        signals, verdict, failed = await self._reader.read_signals(
            snapshot, question, partial(judge_blocks, snapshot.rules)
        )
        _time_signals(request, signals)
        checked = BlockCheck(snapshot, signals, verdict, request.model, tuple(failed))
        request.journal.add("semantic", checked)
        if verdict is not None:
            raise _blocked_error(snapshot, verdict)


async def find_meaning(snapshot: SemanticSnapshot, reader: SignalReader, request: Request) -> RequestMeaning:
    """Read signals until the verdict is certain. Raises RuleBlockedError where it is that."""
    began = perf_counter()
    question = question_of(request)
    signals, verdict, failed = await reader.read_signals(
        snapshot, question, partial(judge_signals, snapshot.rules)
    )
    _time_signals(request, signals)
    if verdict.action == "block":
        request.journal.add("semantic", BlockedDecision(snapshot, signals, verdict))
        raise _blocked_error(snapshot, verdict)
    request.semantics = meaning = RequestMeaning(
        verdict.category,
        verdict.rule_name,
        snapshot,
        question,
        signals,
        verdict,
        tuple(failed),
        perf_counter() - began,
    )
    return meaning


def _time_signals(request: Request, signals: SignalSet) -> None:
    """Record each signal's time and configuration in a traced request's journal."""
    journal = request.journal
    if journal.trace is None or not journal.is_traced:
        return
    for kind, took_s in signals.latencies_s.items():
        began_s = journal.since_origin_s(signals.began_at[kind])
        names = [signal.name or str(signal.value) for signal in signals.signals_of(kind) if signal.matched]
        journal.trace.add_stage(f"signal {kind}", began_s, began_s + took_s, matched=names)


def _blocked_error(snapshot: SemanticSnapshot, verdict: DecisionVerdict) -> RuleBlockedError:
    message = verdict.rule.message if verdict.rule else ""
    return RuleBlockedError(
        message or f"the rule {verdict.rule_name!r} blocks this request", status=snapshot.section.block.status
    )
