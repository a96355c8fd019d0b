"""Reads a log for people, whether it holds or not: that is what `verify` is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from radixway.semantics.guard.audit.entry import Fields, entry_time_s, parse_entry
from radixway.semantics.guard.audit.log_files import list_log_files


def search_entries(
    directory: Path,
    *,
    tenant: str | None = None,
    user: str | None = None,
    rule: str | None = None,
    request: str | None = None,
    since: float | None = None,
) -> Iterator[Fields]:
    """The entries that agree with all that is given, oldest first. Raises OSError.

    `user`: a pseudonym. `rule`: itself, or what it begins with (`answers` for `answers.pii`). `since`:
    seconds since the epoch.
    """
    for file in list_log_files(directory):
        with file.path.open("rb") as lines:
            for line in lines:
                entry = parse_entry(line.removesuffix(b"\n"))
                if entry is None or (since is not None and _is_before(entry, since)):
                    continue
                if _matches_fields(entry, tenant=tenant, user=user, request=request) and _matches_rule(
                    entry, rule
                ):
                    yield entry


def _matches_fields(entry: Fields, **wanted: str | None) -> bool:
    return all(value is None or entry.get(name) == value for name, value in wanted.items())


def _matches_rule(entry: Fields, rule: str | None) -> bool:
    said = entry.get("rule")
    return rule is None or said == rule or (isinstance(said, str) and said.startswith(rule + "."))


def _is_before(entry: Fields, since: float) -> bool:
    try:
        return entry_time_s(entry) < since
    except ValueError:
        return False
