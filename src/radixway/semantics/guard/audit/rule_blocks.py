"""Audit entries for requests that rules of the semantic layer block."""

from __future__ import annotations

from radixway.core.pipeline import GatewayError, Next, Reply, Request
from radixway.semantics.guard.incident import GuardIncident, IncidentRecorder

_CODE = "blocked_by_rule"
"""Of the error with which such a rule ends a request."""


class RuleBlockAudit:
    """A `pipeline.Middleware` outside of the semantic layer: it changes nothing."""

    step_name = "RuleBlocks"

    def __init__(self, recorder: IncidentRecorder) -> None:
        self._recorder = recorder

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        try:
            return await call_next(request)
        except GatewayError as error:
            if error.code == _CODE:
                self._record_block(request)
            raise

    def _record_block(self, request: Request) -> None:
        rule = _blocking_rule(request)
        notes = None if rule is None else {"rule": rule}
        whose = (request.caller.tenant, request.user_or_claimed, request.model)
        self._recorder.record_incident(GuardIncident(request.id, *whose, "rules", "block", notes=notes))


def _blocking_rule(request: Request) -> str | None:
    """The rule's name, from the journal, where the decision stands."""
    for step, _, said in reversed(request.journal.entries):
        if step == "semantic":
            rule: str | None = (said if isinstance(said, dict) else said.explain()).get("rule")
            return rule
    return None
