"""One request before the guard: its texts, what was found in them, and what that means for models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from radixway.guard.incident import Finding, Incident, Recorder
from radixway.guard.placeholders import Vault
from radixway.guard.policy import Judged, Located, PiiVerdict, counting, judge_pii
from radixway.guard.scan import Scan
from radixway.guard.settings import Rules
from radixway.guard.texts import Texts
from radixway.pipeline import Request
from radixway.telemetry import Journal

T = TypeVar("T")


class Review:
    """A `pipeline.Clearance`. Texts are read in tasks of their own, once however many ask."""

    def __init__(
        self,
        scan: Scan,
        texts: Texts,
        rules_of: Callable[[str | None, str | None], Rules],
        recorder: Recorder | None,
        asked: str | None,
        journal: Journal,
    ) -> None:
        """`rules_of`: a category and a decision, each if known. `asked`: the model that the client names.
        `journal`: the request's.
        """
        self.asked = asked
        self.texts = texts
        self.rules_of = rules_of
        self.rules = rules_of(None, None)
        self.found: list[Located] = []
        """Personal data that counts, once it is known."""
        self.hidden: frozenset[str] = frozenset()
        """Types that the request shows no more."""
        self.is_partly_read = False
        """Of personal data only what has a form was found, and that suffices here (`on_error: allow`)."""
        self.vault: Vault | None = None
        """What placeholders in the request stand for, where there are any."""
        self.notes: list[str] = []
        """For the header: `error pii`, `report jailbreak` …"""
        self._scan = scan
        self._recorder = recorder
        self._journal = journal
        self._recorded: set[tuple[str, str, str | None]] = set()
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def begin(self) -> None:
        """Start with what is to be looked for in any case."""
        if self.rules.pii.enabled:
            self._personal_data()
        if self.rules.jailbreak.enabled:
            self._attacks()

    async def personal_data(self) -> list[Located]:
        """Everything that was found, of any confidence. Raises Failed."""
        return await asyncio.shield(self._personal_data())

    async def attacks(self) -> list[Judged]:
        """Every passage, judged. Raises Failed."""
        return await asyncio.shield(self._attacks())

    async def close(self) -> None:
        """Nobody waits any more for what is not known yet."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()  # one that failed has this review in its traceback

    async def find_again(self, texts: Texts) -> list[Located]:
        """What counts in these texts: the request's as they are now. Raises Failed."""
        return counting(await self._scan.personal_data(texts.passages), self.rules.pii)

    def verdict(self, model: str | None) -> PiiVerdict:
        """What becomes of the request, as it is now, if that model is to answer it."""
        types = frozenset(each.found.type for each in self.found)
        return judge_pii(self.rules.pii, model, types - self.hidden)

    def clears(self, model: str) -> bool:
        """See `Clearance`."""
        return self.verdict(model).action in (None, "report")

    @property
    def instead(self) -> str | None:
        """See `Clearance`."""
        return self.rules.pii.route_to if self.verdict(None).action == "route" else None

    def record(
        self,
        request: Request,
        rule: str,
        action: str,
        findings: tuple[Finding, ...] = (),
        model: str | None = None,
        **notes: str,
    ) -> None:
        """Tell the recorder, once of each thing that is done."""
        key = rule, action, model
        if self._recorder is None or request.rehearsed or key in self._recorded:
            return
        self._recorded.add(key)
        said: Mapping[str, str] | None = notes or None
        self._recorder.record(
            Incident(request.id, request.tenant, request.asker, model, rule, action, findings, said)
        )

    def _personal_data(self) -> asyncio.Task[list[Located]]:
        return self._task("pii", lambda: self._scan.personal_data(self.texts.passages))

    def _attacks(self) -> asyncio.Task[list[Judged]]:
        return self._task("jailbreak", lambda: self._scan.attacks(self.texts.passages))

    def _task(self, guard: str, work: Callable[[], Coroutine[Any, Any, list[T]]]) -> asyncio.Task[list[T]]:
        task = self._tasks.get(guard)
        if task is None:
            timed = self._timed(guard, self._journal.elapsed_s(), work)
            task = self._tasks[guard] = asyncio.create_task(timed)
        return task

    async def _timed(self, guard: str, began_s: float, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return await work()
        finally:
            self._journal.timed(f"guard {guard}", began_s)


of_this_request: ContextVar[Review | None] = ContextVar("guard_of_this_request", default=None)
"""Where steps further down the road, and rules about what the guard finds, look."""
