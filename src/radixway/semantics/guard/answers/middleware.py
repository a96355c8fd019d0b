"""Middlewares that guard answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from radixway.core.config.guard import AnswersConfig
from radixway.core.pipeline import Endpoint, Next, Reply, Request
from radixway.semantics.guard.answers.answer_forms import FORMS
from radixway.semantics.guard.answers.event_queue import EventQueue
from radixway.semantics.guard.answers.guard_report import AnswerGuardMetrics, AnswerReport
from radixway.semantics.guard.answers.guarded_parts import GuardedParts
from radixway.semantics.guard.answers.guarded_reply import GuardedEvents
from radixway.semantics.guard.answers.response_inspection import InspectionTools, ResponseInspection
from radixway.semantics.guard.answers.whole_reply import guard_body
from radixway.semantics.guard.incident import IncidentRecorder
from radixway.semantics.guard.placeholders import PlaceholderVault

FROM_CACHE = "semantic-cache"
"""The worker of a reply that was kept (`semantic_cache.middleware.WORKER`)."""


class AnswerGuard:
    """A `pipeline.Middleware` within the semantic cache, so that the cache sees what clients see, and around
    the recorder of trajectories, which sees what workers said.

    Turns placeholders back, and does what `guard.answers` says about the rest. Where there is nothing to do
    for a request, its reply passes untouched.
    """

    def __init__(
        self,
        sections: AnswerSections,
        parts: InspectionTools,
        counts: AnswerGuardMetrics,
        vault_of: Callable[[Request], PlaceholderVault | None] = lambda _: None,
        recorder: IncidentRecorder | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`vault_of`: what turns a request's placeholders back, asked for when its answer has come.
        `note`: told what was done, for the reply's header, if its headers are not sent yet.
        """
        self._sections = sections
        self.parts = parts
        self._counts = counts
        self._vault_of = vault_of
        self._recorder = recorder
        self._note = note

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Where a model writes the answer. Those of sessions are read part by part (`parts_of`)."""
        return endpoint.guarded and endpoint.generates and not endpoint.is_in_session

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """The reply of whoever comes next, guarded."""
        reply = await call_next(request)
        return await self.guard_reply(request, reply)

    async def guard_reply(self, request: Request, reply: Reply) -> Reply:
        """A reply, guarded by the rules for its request."""
        judging = self._inspection_for(request) if reply.status == 200 else None
        if judging is None:
            return reply
        watching, report = judging
        form = FORMS[request.endpoint.reply_form]
        if reply.chunks is None:
            try:
                reply.body = await guard_body(reply.body, form, watching.watch_text, report)
            finally:
                report.finish_report()
            return reply
        queue = EventQueue(form, watching.watch_text, report)
        reply.chunks = GuardedEvents(reply.chunks, queue, report, watching.longest_wait_s)
        request.open_streams.append(reply.chunks)
        return reply

    def parts_guard_for(self, request: Request) -> GuardedParts | None:
        """For an answer that comes in parts; None where there is nothing to do."""
        judging = self._inspection_for(request)
        if judging is None:
            return None
        watching, report = judging
        return GuardedParts(watching.watch_text, report, watching.longest_wait_s)

    def _inspection_for(self, request: Request) -> tuple[ResponseInspection, AnswerReport] | None:
        section, vault = self._sections.section_for(request), self._vault_of(request)
        if not (section.is_on or vault):
            return None
        report = AnswerReport(request, self._counts, self._recorder, section.on_error_of, self._note)
        return ResponseInspection(section, self.parts, request, vault, report), report


class CachedAnswerGuard:
    """A `pipeline.Middleware` around the semantic cache: what was kept under other rules, or by another
    process, is read again by those for whoever is given it now."""

    step_name = "KeptAnswerGuard"

    def __init__(self, guard: AnswerGuard) -> None:
        self._guard = guard

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Where answers may be kept."""
        return endpoint.guarded and endpoint.is_cacheable

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """The reply of whoever comes next; guarded if it was kept."""
        reply = await call_next(request)
        return await self._guard.guard_reply(request, reply) if reply.worker == FROM_CACHE else reply


class AnswerSections:
    """The rules for all, and for tenants that name a policy: the same, with what the policy says itself."""

    def __init__(self, section: AnswersConfig, own: Mapping[str, AnswersConfig | None]) -> None:
        self._section = section
        self._own = {name: _overlay_section(section, each) for name, each in own.items() if each is not None}

    @property
    def all_sections(self) -> list[AnswersConfig]:
        """Every one."""
        return [self._section, *self._own.values()]

    def section_for(self, request: Request) -> AnswersConfig:
        """Those for a request."""
        policy = None if request.caller.policy is None else request.caller.policy.guard
        return self._own.get(policy or "", self._section)


def _overlay_section(below: AnswersConfig, own: AnswersConfig) -> AnswersConfig:
    """A section with what another one says itself, key by key in each part."""
    update = {}
    for name in own.model_fields_set:
        new, old = getattr(own, name), getattr(below, name)
        if hasattr(new, "model_fields_set"):
            new = old.model_copy(update={key: getattr(new, key) for key in new.model_fields_set})
        update[name] = new
    return below.model_copy(update=update)
