"""What rules of the semantic layer block is a guard's work too, and is written down with the rest."""

from __future__ import annotations

from radixway.guard.incident import Incident, Recorder
from radixway.pipeline import GatewayError, Next, Reply, Request

_CODE = "blocked_by_rule"
"""Of the error with which such a rule ends a request."""


class RuleBlocks:
    """A `pipeline.Middleware` outside of the semantic layer: it changes nothing."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        try:
            return await call_next(request)
        except GatewayError as error:
            if error.code == _CODE:
                self._record(request)
            raise

    def _record(self, request: Request) -> None:
        rule = _rule_of(request)
        notes = None if rule is None else {"rule": rule}
        whose = (request.tenant, request.asker, request.model)
        self._recorder.record(Incident(request.id, *whose, "rules", "block", notes=notes))


def _rule_of(request: Request) -> str | None:
    """The rule's name, from the journal, where the decision stands."""
    for step, _, said in reversed(request.journal.entries):
        if step == "semantic":
            rule: str | None = (said if isinstance(said, dict) else said.explain()).get("rule")
            return rule
    return None
