"""The rim: reads signals of a request, cheapest first, until its verdict is certain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from radixway.semantics.decisions.snapshot import KINDS, Encode, SemanticSnapshot
from radixway.semantics.decisions.verdict import MissingSignals
from radixway.semantics.signals.base import SignalSet, SignalValue
from radixway.semantics.signals.guard_findings import GUARD_KINDS, GuardHook, guard_signals
from radixway.semantics.signals.question import RequestQuestion

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding

log = logging.getLogger(__name__)

T = TypeVar("T")
_THREAD_MIN_CHARS = 50_000
"""Longer texts are evaluated in a thread: a megabyte would block the loop too long."""
_COST = {kind: cost for cost, kind in enumerate((*KINDS, *GUARD_KINDS))}


class SignalReader:
    """Reads what is needed and no more. A part that fails says nothing, and is noted as failed."""

    def __init__(self, encode: Encode | None, guard: GuardHook | None = None) -> None:
        self._encode = encode
        self._guard = guard

    async def read_signals(
        self,
        snapshot: SemanticSnapshot,
        question: RequestQuestion,
        judge: Callable[[SignalSet], T | MissingSignals],
    ) -> tuple[SignalSet, T, list[str]]:
        """Return the signals that were read, the verdict that `judge` gives of them, and what failed."""
        signals = SignalSet()
        failed: list[str] = []
        encoding: TextEncoding | None = None
        encoded = False
        while isinstance(verdict := judge(signals), MissingSignals):
            kinds = sorted(verdict.kinds, key=lambda kind: _COST.get(kind, len(_COST)))
            detectors = {kind: snapshot.detectors.get(kind) for kind in kinds}
            cheap = [kind for kind in kinds if self._is_cheap(snapshot, kind, encoded)]
            if cheap:
                await self._run_detector(snapshot, question, cheap[0], encoding, signals)
                continue
            # What is left waits for others: at the same time, since it costs no time of ours.
            waits: list[Awaitable[object]] = []
            if any(kind in GUARD_KINDS for kind in kinds):
                waits.append(self._ask_guard(snapshot, question, signals, failed))
            if any(detector is not None and detector.needs_encoding for detector in detectors.values()):
                waits.append(self._encode_question(question, signals, failed))
                encoded = True
            for result in await asyncio.gather(*waits):
                if result is not None:
                    encoding = result  # type: ignore[assignment]
        return signals, verdict, failed

    def _is_cheap(self, snapshot: SemanticSnapshot, kind: str, encoded: bool) -> bool:
        """Return whether the kind can be evaluated now, without waiting."""
        if kind in GUARD_KINDS:
            return self._guard is None
        detector = snapshot.detectors.get(kind)
        return detector is None or encoded or not detector.needs_encoding

    async def _run_detector(
        self,
        snapshot: SemanticSnapshot,
        question: RequestQuestion,
        kind: str,
        encoding: TextEncoding | None,
        signals: SignalSet,
    ) -> None:
        began = signals.began_at[kind] = perf_counter()
        detector = snapshot.detectors.get(kind)
        found: tuple[SignalValue, ...] = ()
        if detector is not None and len(question.text) + len(question.whole) > _THREAD_MIN_CHARS:
            found = await asyncio.to_thread(lambda: tuple(detector.detect_signals(question, encoding)))
        elif detector is not None:
            found = tuple(detector.detect_signals(question, encoding))
        signals.add_signals(kind, found, perf_counter() - began)

    async def _encode_question(
        self, question: RequestQuestion, signals: SignalSet, failed: list[str]
    ) -> TextEncoding | None:
        if self._encode is None or not question.text.strip():
            return None
        began = signals.began_at["encoder"] = perf_counter()
        try:
            return await self._encode(question.text)
        except Exception as error:  # noqa: BLE001 - a request flows on without being understood
            log.warning("semantic: the encoder failed: %s", type(error).__name__)
            failed.append("encoder")
            return None
        finally:
            signals.latencies_s["encoder"] = perf_counter() - began

    async def _ask_guard(
        self, snapshot: SemanticSnapshot, question: RequestQuestion, signals: SignalSet, failed: list[str]
    ) -> None:
        assert self._guard is not None
        began = perf_counter()
        found: Mapping[str, Sequence[SignalValue]] = {}
        try:
            findings = await self._guard(question)
            found = guard_signals(findings, snapshot.section.signals)
            if findings.personal_data is None or findings.attacks is None:
                failed.append("guard")
        except Exception as error:  # noqa: BLE001 - whether that blocks is the guard's own policy
            log.warning("semantic: the guard failed: %s", type(error).__name__)
            failed.append("guard")
        for kind in GUARD_KINDS:
            signals.began_at[kind] = began
            signals.add_signals(kind, found.get(kind, ()), perf_counter() - began)
