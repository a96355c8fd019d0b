"""The middlewares that guard answers."""

from collections.abc import Callable
from typing import Any

from radixway.core.config.guard import GuardConfig
from radixway.core.pipeline import Endpoint, Next, PersonalDataFinder, Reply, Request
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.guard.answers.answer_forms import FORMS
from radixway.semantics.guard.answers.event_queue import EventQueue
from radixway.semantics.guard.answers.guard_report import AnswerGuardMetrics, AnswerReport
from radixway.semantics.guard.answers.guarded_reply import GuardedEvents, GuardedParts, guard_body
from radixway.semantics.guard.answers.moderation import ModerationClient
from radixway.semantics.guard.answers.response_inspection import ResponseInspection
from radixway.semantics.guard.incident import IncidentRecorder
from radixway.semantics.guard.redaction import PlaceholderVault
from radixway.semantics.guard.rulebook import overlay_section

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
        config: GuardConfig,
        finder: PersonalDataFinder,
        metrics: MetricsRegistry,
        recorder: IncidentRecorder | None = None,
        vault_of: Callable[[], PlaceholderVault | None] = lambda: None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`vault_of` returns the placeholders of the request whose answer has come. `note` takes what was
        done, for the reply's header, if its headers are not sent yet.

        Raises ConfigError where a key cannot be read.
        """
        self._section = config.answers
        self._sections = {
            name: overlay_section(config.answers, policy.answers)
            for name, policy in config.policies.items()
            if policy.answers is not None
        }
        """By the policy that tenants name."""
        self._finder = finder
        self._moderators = [
            ModerationClient(each.moderation)
            for each in (self._section, *self._sections.values())
            if each.moderation.url is not None
        ]
        self._counts = AnswerGuardMetrics(metrics)
        self._recorder = recorder
        self._vault_of = vault_of
        self._note = note

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether a model writes the answer of `endpoint`; those of sessions are read part by part."""
        return endpoint.guarded and endpoint.generates and not endpoint.is_in_session

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        return await self.guard_reply(request, await call_next(request))

    async def guard_reply(self, request: Request, reply: Reply) -> Reply:
        """Return `reply`, guarded by the rules for `request`."""
        inspected = self._inspect(request) if reply.status == 200 else None
        if inspected is None:
            return reply
        inspection, report = inspected
        form = FORMS[request.endpoint.reply_form]
        if reply.chunks is None:
            try:
                reply.body = await guard_body(reply.body, form, inspection.watch_text, report)
            finally:
                report.finish_report()
            return reply
        queue = EventQueue(form, inspection.watch_text, report)
        reply.chunks = GuardedEvents(reply.chunks, queue, report, inspection.longest_wait_s)
        request.open_streams.append(reply.chunks)
        return reply

    def parts_guard_for(self, request: Request) -> GuardedParts | None:
        """Return the guard of an answer to `request` that comes in parts; None where none is needed."""
        inspected = self._inspect(request)
        if inspected is None:
            return None
        inspection, report = inspected
        return GuardedParts(inspection.watch_text, report, inspection.longest_wait_s)

    def describe(self) -> dict[str, Any]:
        """Return what `/health` shows."""
        return self._counts.describe()

    async def aclose(self) -> None:
        """Close the connections to moderation services."""
        for moderator in self._moderators:
            await moderator.aclose()

    def _inspect(self, request: Request) -> tuple[ResponseInspection, AnswerReport] | None:
        policy = None if request.caller.policy is None else request.caller.policy.guard
        section, vault = self._sections.get(policy or "", self._section), self._vault_of()
        if not (section.is_on or vault):
            return None
        report = AnswerReport(request, self._counts, self._recorder, section.on_error_of, self._note)
        moderator = next((each for each in self._moderators if each.section is section.moderation), None)
        return ResponseInspection(section, request, self._finder, report, vault, moderator), report


class CachedAnswerGuard:
    """A `pipeline.Middleware` around the semantic cache: what was kept under other rules, or by another
    process, is read again by those for whoever is given it now."""

    step_name = "KeptAnswerGuard"

    def __init__(self, guard: AnswerGuard) -> None:
        self._guard = guard

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether answers of `endpoint` may be cached."""
        return endpoint.guarded and endpoint.is_cacheable

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        reply = await call_next(request)
        return await self._guard.guard_reply(request, reply) if reply.worker == FROM_CACHE else reply
