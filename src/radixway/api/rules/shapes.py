"""Replies of the rules API."""

from pydantic import BaseModel, ConfigDict

from radixway.core.config import ConfigError
from radixway.core.config.yaml_file import ConfigFileError
from radixway.semantics.decisions.replay import DecisionComparison, TryoutReport
from radixway.semantics.decisions.rules_file import RulesVersion


class RuleMistake(BaseModel):
    """A mistake with its line and its place in the tree."""

    line: int | None
    path: str
    message: str


class PastRules(BaseModel):
    """A text that was in force."""

    version: str
    saved_at: float
    bytes: int


class ActiveRules(BaseModel):
    """The rules in force."""

    text: str
    version: str | None
    """None: it stands in the gateway's own configuration."""
    checksum: str
    loaded_at: float


class RulesState(BaseModel):
    """The rules, and whether they can be edited here."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)
    file: str | None = None
    text: str | None = None
    """Text of the file, which differs from the one in force if it has mistakes."""
    version: str | None = None
    in_force: ActiveRules
    error: str | None
    """Why the last text of the file was not taken."""
    editable: bool
    why_not: str | None
    past: list[PastRules] = []


class RulesCheck(BaseModel):
    """The mistakes in a text; none where `ok`."""

    ok: bool
    mistakes: list[RuleMistake]


class RuleOutcome(BaseModel):
    """The decision about a request."""

    model: str | None
    category: str | None
    rule: str | None
    blocked: bool
    reasoning: bool | None


class SignalReading(BaseModel):
    """A signal that was read of a text."""

    kind: str
    name: str
    value: bool | float | str
    matched: bool
    confidence: float
    latency_ms: float


class RequestReplay(BaseModel):
    """A recent request, replayed. `after` is null where only its text, which is not kept, could tell."""

    request_id: str
    began_at: float
    before: RuleOutcome
    after: RuleOutcome | None
    changed: list[str]
    missing: list[str]


class TextReplay(BaseModel):
    """The replay of one given text."""

    before: RuleOutcome
    after: RuleOutcome
    changed: list[str]
    signals: list[SignalReading]


class RulesReplayReport(BaseModel):
    """The changes that new rules would make."""

    judged: int
    """Recent requests whose recorded signals were enough to replay them."""
    unchanged: int
    changed: int
    unknown: int
    """Replaying them needs their texts, which are not stored."""
    unread: int
    """Requests that named their model while no rule blocked: nothing was recorded of them."""
    unread_matter: bool
    """Whether that makes them unknown too, as new rules block."""
    by: dict[str, int]
    requests: list[RequestReplay]
    """Changed and unknown requests, newest first."""
    texts: list[TextReplay]


class AppliedRules(BaseModel):
    """The rules that are in force from now on."""

    version: str
    message: str


def describe_mistakes(error: ConfigError) -> list[RuleMistake]:
    """List the mistakes that `error` tells of; without a line where they are in no one place."""
    if isinstance(error, ConfigFileError):
        return [RuleMistake(line=item.line, path=item.path, message=item.text) for item in error.found]
    return [RuleMistake(line=None, path="", message=line) for line in str(error).splitlines()]


def describe_past_rules(past: list[RulesVersion]) -> list[PastRules]:
    """Describe `past` texts in the order in which they come, the newest first."""
    return [PastRules(version=text.version, saved_at=text.saved_at, bytes=text.size_bytes) for text in past]


def describe_replay(trial: TryoutReport, max_listed: int) -> RulesReplayReport:
    """Describe what new rules would change; `max_listed` requests are listed one by one."""
    known = [request for request in trial.requests if request.after is not None]
    changed = [request for request in known if request.changed]
    listed = [request for request in trial.requests if request.after is None or request.changed][:max_listed]
    return RulesReplayReport(
        judged=len(known),
        unchanged=len(known) - len(changed),
        changed=len(changed),
        unknown=len(trial.requests) - len(known),
        unread=trial.unread,
        unread_matter=trial.unread_matter,
        by=dict(trial.count_changes()),
        requests=[RequestReplay.model_validate(request, from_attributes=True) for request in listed],
        texts=[_replayed_text(text) for text in trial.texts],
    )


def _replayed_text(tried: DecisionComparison) -> TextReplay:
    assert tried.after is not None and tried.signals is not None
    return TextReplay(
        before=RuleOutcome.model_validate(tried.before, from_attributes=True),
        after=RuleOutcome.model_validate(tried.after, from_attributes=True),
        changed=list(tried.changed),
        signals=[SignalReading(**signal) for signal in tried.signals.explain()],
    )
