"""What is answered about rules."""

from __future__ import annotations

from pydantic import BaseModel

from radixway.config import ConfigError
from radixway.config.yaml_file import FileMistakes
from radixway.semantic.rejudging import Outcome
from radixway.semantic.rules_file import Past
from radixway.semantic.trial import Trial, Tried


class MistakeShape(BaseModel):
    """One mistake, by its line and its place in the tree."""

    line: int | None
    path: str
    message: str


class PastShape(BaseModel):
    """A text that was in force."""

    version: str
    saved_at: float
    bytes: int


class InForce(BaseModel):
    """What requests are judged by now."""

    text: str
    version: str | None
    """None: it stands in the gateway's own configuration."""
    checksum: str
    loaded_at: float


class RulesShape(BaseModel):
    """The rules, and whether they can be edited here."""

    file: str | None
    text: str | None
    """What stands in the file, which may be another text than that in force, if it has mistakes."""
    version: str | None
    in_force: InForce
    error: str | None
    """Why the last text of the file was not taken."""
    editable: bool
    why_not: str | None
    past: list[PastShape]


class Checked(BaseModel):
    """What is wrong with a text; nothing where `ok`."""

    ok: bool
    mistakes: list[MistakeShape]


class OutcomeShape(BaseModel):
    """What becomes of a request."""

    model: str | None
    category: str | None
    rule: str | None
    blocked: bool
    reasoning: bool | None


class SignalShape(BaseModel):
    """What was read of a text."""

    kind: str
    name: str
    value: bool | float | str
    matched: bool
    confidence: float
    latency_ms: float


class TriedRequest(BaseModel):
    """A request of late. `after` is null where only its text, which is not kept, could tell."""

    request_id: str
    began_at: float
    before: OutcomeShape
    after: OutcomeShape | None
    changed: list[str]
    missing: list[str]


class TriedText(BaseModel):
    """One of the texts that were given."""

    before: OutcomeShape
    after: OutcomeShape
    changed: list[str]
    signals: list[SignalShape]


class TrialShape(BaseModel):
    """What new rules would do."""

    judged: int
    """Requests of late that could be judged again by what was recorded of them."""
    unchanged: int
    changed: int
    unknown: int
    """Only their texts could tell, which are not kept."""
    unread: int
    """Requests that named their model while no rule blocked: nothing was recorded of them."""
    unread_matter: bool
    """Whether that makes them unknown too, as new rules block."""
    by: dict[str, int]
    requests: list[TriedRequest]
    """Those that would change, and those that are unknown, the newest first."""
    texts: list[TriedText]


class Applied(BaseModel):
    """The rules that are in force from now on."""

    version: str
    message: str


def mistakes_of(error: ConfigError) -> list[MistakeShape]:
    """As many as the error tells of; without a line where they are in no one place."""
    if isinstance(error, FileMistakes):
        return [MistakeShape(line=each.line, path=each.path, message=each.text) for each in error.found]
    return [MistakeShape(line=None, path="", message=line) for line in str(error).splitlines()]


def past_of(past: list[Past]) -> list[PastShape]:
    """The newest first, as they come."""
    return [PastShape(version=each.version, saved_at=each.saved_at, bytes=each.size_bytes) for each in past]


def trial_of(trial: Trial, most: int) -> TrialShape:
    """`most`: how many requests are told of one by one."""
    known = [each for each in trial.requests if each.after is not None]
    changed = [each for each in known if each.changed]
    told = [each for each in trial.requests if each.after is None or each.changed][:most]
    return TrialShape(
        judged=len(known),
        unchanged=len(known) - len(changed),
        changed=len(changed),
        unknown=len(trial.requests) - len(known),
        unread=trial.unread,
        unread_matter=trial.unread_matter,
        by=dict(trial.counts()),
        requests=[_request(each) for each in told],
        texts=[_text(each) for each in trial.texts],
    )


def _request(tried: Tried) -> TriedRequest:
    return TriedRequest(
        request_id=tried.request_id,
        began_at=tried.began_at,
        before=_outcome(tried.before),
        after=None if tried.after is None else _outcome(tried.after),
        changed=list(tried.changed),
        missing=list(tried.missing),
    )


def _text(tried: Tried) -> TriedText:
    assert tried.after is not None and tried.signals is not None
    return TriedText(
        before=_outcome(tried.before),
        after=_outcome(tried.after),
        changed=list(tried.changed),
        signals=[SignalShape(**each) for each in tried.signals.explain()],
    )


def _outcome(outcome: Outcome) -> OutcomeShape:
    return OutcomeShape(
        model=outcome.model,
        category=outcome.category,
        rule=outcome.rule,
        blocked=outcome.blocked,
        reasoning=outcome.reasoning,
    )
