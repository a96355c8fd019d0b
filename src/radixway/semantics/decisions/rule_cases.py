"""Cases that a semantic configuration must get right: texts, and what is expected of the decision on each."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from radixway.core.config import ConfigError
from radixway.core.config.base import ConfigSection
from radixway.core.config.yaml_file import line_of, places_of_mistakes, read_text, read_yaml


class ExpectedDecision(ConfigSection):
    """What must hold; keys that are left out may be anything."""

    category: str | None = None
    rule: str | None = None
    """The rule or decision that wins."""
    model: str | None = None
    reasoning: bool | None = None
    blocked: bool | None = None
    signals: tuple[str, ...] = ()
    """Signals that must match, as `kind:name`."""

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("say what is expected: category, rule, model, reasoning, blocked or signals")
        return self


class SemanticCase(ConfigSection):
    """A request and what is expected of it."""

    name: str = ""
    text: Annotated[str, Field(min_length=1)] | None = None
    messages: tuple[dict[str, Any], ...] = ()
    """A whole conversation in place of `text`."""
    headers: dict[str, str] = Field(default_factory=dict)
    model: str = "auto"
    preference: str | None = None
    expect: ExpectedDecision

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if (self.text is None) == (not self.messages):
            raise ValueError("a case has either a text or messages")
        return self

    def request_body(self) -> dict[str, Any]:
        """Return the chat completion."""
        messages = list(self.messages) or [{"role": "user", "content": self.text}]
        more = {} if self.preference is None else {"preference": self.preference}
        return {"model": self.model, "messages": messages, **more}

    def display_name(self) -> str:
        """Return its name, or the beginning of its text."""
        label = self.name or self.text or str(self.messages[-1].get("content", ""))
        line = " ".join(label.split())
        return line if len(line) <= 80 else f"{line[:79]}…"


@dataclass(frozen=True, slots=True)
class LocatedCase:
    """A case and where it stands."""

    case: SemanticCase
    where: str
    """`cases.yaml:12`."""


def read_cases(path: Path) -> list[LocatedCase]:
    """Cases of a YAML file, under `cases`, or of JSON lines (`.jsonl`).

    Raises:
        ConfigError: a line per mistake, each with path and line.
    """
    rows = _json_lines(path) if path.suffix in (".jsonl", ".ndjson") else _yaml_cases(path)
    found: list[LocatedCase] = []
    mistakes: list[str] = []
    for row, line_at in rows:
        try:
            found.append(LocatedCase(SemanticCase.model_validate(row), f"{path}:{line_at(())}"))
        except ValidationError as error:
            for at, text in places_of_mistakes(error):
                key = ".".join(map(str, at)) or "case"
                mistakes.append(f"{path}:{line_at(at)}: {key}: {text}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    if not found:
        raise ConfigError(f"{path}:1: there are no cases in it")
    return found


Row = tuple[Any, Any]
"""A case, and what finds the line of a place in it."""


def _yaml_cases(path: Path) -> Iterator[Row]:
    tree, root = read_yaml(path)
    for name in tree.keys() - {"cases"}:
        raise ConfigError(
            f"{path}:{line_of((name,), root)}: {name}: there is no such key; cases stand under cases"
        )
    rows = tree.get("cases") or []
    if not isinstance(rows, list):
        raise ConfigError(f"{path}:{line_of(('cases',), root)}: cases: this must be a list")
    for index, row in enumerate(rows):
        yield row, lambda at, index=index: line_of(("cases", index, *at), root)


def _json_lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line), lambda at, number=number: number
            except ValueError as error:
                raise ConfigError(f"{path}:{number}: not valid JSON: {error}") from None


def unmet_expectations(
    expected: ExpectedDecision, outcome: Mapping[str, Any], matched: Iterable[str]
) -> list[str]:
    """Return what is not as expected, in words; none where all is. `matched`: signals as `kind:name`."""
    unmet = []
    for name in ("category", "rule", "model", "reasoning", "blocked"):
        wanted, got = getattr(expected, name), outcome.get(name)
        if name in expected.model_fields_set and wanted != got:
            unmet.append(f"{name} is {_format_value(got)}, expected {_format_value(wanted)}")
    missing = sorted(set(expected.signals) - set(matched))
    return [*unmet, *(f"the signal {name} does not match" for name in missing)]


def _format_value(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
