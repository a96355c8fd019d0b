"""Runs cases through the middlewares that serve requests, without a gateway: every model counts as ready."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from radixway.core.config import EncodersConfig
from radixway.core.config.semantic import SemanticConfig, local_model_paths, merge_semantic_file
from radixway.core.pipeline import (
    CHAT_COMPLETIONS,
    AttackJudge,
    GatewayError,
    ModelState,
    PersonalDataFinder,
    Pipeline,
    Reply,
    Request,
)
from radixway.core.telemetry import Journal
from radixway.semantics.decisions.detection import RuleBlockedError
from radixway.semantics.decisions.rule_cases import LocatedCase, SemanticCase, unmet_expectations
from radixway.semantics.decisions.service import SemanticService, build_semantic_service
from radixway.semantics.signals.guard_findings import SingleTextGuardHook

if TYPE_CHECKING:
    from radixway.semantics.encoders import EncoderService


@dataclass(frozen=True, slots=True)
class OfflineLayer:
    """The services of a dry run."""

    encoders: EncoderService
    room: SemanticService


Guards = Callable[["EncoderService"], tuple[PersonalDataFinder, AttackJudge]]


@asynccontextmanager
async def open_offline(
    section: SemanticConfig, encoders: EncodersConfig, guards: Guards | None = None
) -> AsyncIterator[OfflineLayer]:
    """Load the encoder and compile the section. `guards`: the detectors for rules with guard signals.

    Raises:
        ConfigError: the section cannot be used.
        ImportError: packages of radixway[semantic] are missing.
    """
    from radixway.semantics.encoders import start_service

    category = merge_semantic_file(section).classifier.category_model
    encoder = start_service(encoders, *local_model_paths(category.model_id, category.category_mapping_path))
    try:
        guard = None if guards is None else SingleTextGuardHook(*guards(encoder))
        service = build_semantic_service(section, every_model_is_ready, encoder, cache=None, guard=guard)
        await service.snapshots.load_initial()
        yield OfflineLayer(encoder, service)
    finally:
        await encoder.aclose()


class _AlwaysReady:
    workers = 1

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        return 0.0


_READY = _AlwaysReady()


def every_model_is_ready(model: str) -> ModelState | None:
    """A `pipeline.ModelStates` without workers: scores and prices alone decide."""
    return _READY


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case."""

    placed: LocatedCase
    failures: tuple[str, ...]
    """Empty: it passed."""
    outcome: dict[str, Any]
    """`category`, `rule`, `model`, `reasoning`, `blocked`."""
    signals: tuple[dict[str, Any], ...]
    """Every signal that was read, as the journal has them."""
    why: str

    @property
    def passed(self) -> bool:
        """Return whether all is as expected."""
        return not self.failures

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON fields."""
        return {
            "where": self.placed.where,
            "case": self.placed.case.display_name(),
            "passed": self.passed,
            "failures": list(self.failures),
            "outcome": self.outcome,
            "why": self.why,
            "signals": list(self.signals),
        }


async def run_case(setup: OfflineLayer, placed: LocatedCase) -> CaseResult:
    """Send one case through the middlewares that serve requests. What they refuse fails the case."""
    from radixway.semantics.encoders import EncodeOnceMiddleware

    case = placed.case
    request = _case_request(case)
    models: list[str | None] = []

    async def worker(request: Request) -> Reply:
        models.append(request.model)
        return Reply(200, [], "rehearsal", b"{}")

    service = setup.room
    once = EncodeOnceMiddleware(setup.encoders)
    pipeline = Pipeline([once, service.detect, service.middleware, service.tools], worker)
    outcome: dict[str, Any] = {"blocked": False}
    refused = ""
    try:
        await pipeline(request)
        outcome["model"] = models[0]
    except RuleBlockedError as error:
        outcome |= {"blocked": True, "model": None}
        refused = str(error)
    except GatewayError as error:
        refused = str(error)
    entry = _journal_decision(request.journal)
    outcome |= {name: entry.get(name) for name in ("category", "rule")}
    outcome["reasoning"] = entry.get("reasoning")
    signals = tuple(entry.get("signals", ()))
    matched = [f"{each['kind']}:{each['name']}" for each in signals if each["matched"] and each["name"]]
    failures = unmet_expectations(case.expect, outcome, matched)
    if refused and not outcome["blocked"]:
        failures = [f"refused: {refused}", *failures]
    return CaseResult(placed, tuple(failures), outcome, signals, _failure_reason(entry, refused))


def _case_request(case: SemanticCase) -> Request:
    headers = tuple(
        (name.lower().encode("ascii", "replace"), value.encode("utf-8"))
        for name, value in case.headers.items()
    )
    named = dict(headers)
    preference = named.get(b"x-radixway-preference")
    return Request(
        id="rehearsal",
        endpoint=CHAT_COMPLETIONS,
        path=CHAT_COMPLETIONS.path,
        journal=Journal("rehearsal"),
        raw=msgspec.json.encode(case.request_body()),
        model=case.model,
        headers=headers,
        preference=None if preference is None else preference.decode(),
    )


def _journal_decision(journal: Journal) -> dict[str, Any]:
    """Return the journal's deciding step; empty if no decision was needed."""
    for step, _, entry in reversed(journal.entries):
        if step == "semantic":
            return entry if isinstance(entry, dict) else entry.explain()
    return {}


def _failure_reason(entry: dict[str, Any], refused: str) -> str:
    if refused:
        return refused
    if "reason" not in entry:
        return "the request names its model"
    parts = [str(entry["reason"])]
    if "confidence" in entry:
        parts[0] += f" {entry['confidence']:.2f}"
    if "entropy" in entry:
        parts.append(f"entropy {entry['entropy']:.2f}")
    if "choice" in entry:
        parts.append(f"model by {entry['choice']}")
    if "reasoning_reason" in entry:
        parts.append(f"thinking by {entry['reasoning_reason']}")
    if failed := entry.get("failed"):
        parts.append(f"failed: {', '.join(failed)}")
    return "; ".join(part for part in parts if part)
