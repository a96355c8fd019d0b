"""Keys, teams and users: what the page shows of each, and what may be set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radixway.console.components import split_names
from radixway.console.texts import TextCatalog
from radixway.core.config.tenants import format_cost

Record = Mapping[str, Any]
"""A key, a team or a user, as the gateway describes it."""

_LISTS = ("models", "endpoints")
_COUNTS = ("rpm_limit", "tpm_limit")
NUMBERS = ("max_budget", "soft_budget", *_COUNTS)
_STATE_MOODS = {"active": "good", "blocked": "bad", "expired": "warn"}
_BUDGET_MOODS = {"ok": "", "soft_limit_reached": "warn", "exceeded": "bad"}


@dataclass(frozen=True, slots=True)
class RecordKind:
    """One of the page's tables."""

    name: str
    """Its name in texts, in the gateway's answer, and after the slash in both addresses."""
    owner: str
    """Column of those it belongs to, or that belong to it."""
    last: str
    """The column before the actions."""
    texts: tuple[str, ...]
    """Fields of text, in the form's order; the numbers follow."""
    fixed: str = ""
    """The field that can be given only as a record is created."""
    actions: tuple[str, ...] = ()
    """Actions beside those that all kinds have."""

    @property
    def path(self) -> str:
        """The gateway's path, and the page's."""
        return f"/{self.name}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return ("alias", "state", self.owner, "scope", "budget", "rates", self.last, "actions")


KINDS = (
    RecordKind(
        "keys",
        owner="team",
        last="expires",
        texts=("alias", "team", "user", "models", "endpoints", "duration", "budget_duration"),
        actions=("rotate",),
    ),
    RecordKind(
        "teams",
        owner="members",
        last="count",
        texts=("id", "alias", "members", "models", "budget_duration"),
        fixed="id",
    ),
    RecordKind(
        "users",
        owner="teams",
        last="count",
        texts=("id", "alias", "email", "models", "budget_duration"),
        fixed="id",
    ),
)


def record_name(record: Record) -> str:
    """Return the name of `record` for people."""
    return str(record["alias"] or record.get("shown") or record["id"])


def record_cells(say: TextCatalog, kind: RecordKind, record: Record) -> dict[str, Any]:
    """Return `record` as the cells of `key_row.html`."""
    budget, duration, currency = record["max_budget"], record["budget_duration"], record["currency"]
    spent = format_cost(record["spend"])
    if budget is not None:
        spent = say("keys.spent_of", spent=spent, budget=format_cost(budget))
    soft_budget = record["soft_budget"]
    period = [say("keys.alert", budget=format_cost(soft_budget))] if soft_budget is not None else []
    period += [say("keys.every", duration=duration)] if duration else []
    scope = [", ".join(record["models"]) or say("keys.all_models"), ", ".join(record.get("endpoints", ()))]
    if (scopes := record.get("scopes", ["user"])) != ["user"]:
        scope.append(", ".join(scopes))
    rates = [
        say(f"keys.{name}.of", count=f"{record[name]:,}")
        for name in (*_COUNTS, "max_parallel_requests")
        if record[name] is not None
    ]
    state = record.get("state") or ("blocked" if record["blocked"] else "active")
    actions = ("edit", *kind.actions, "unblock" if record["blocked"] else "block", "delete")
    return {
        "id": record["id"],
        "alias": record["alias"] or record["id"],
        "shown": record.get("shown") or record.get("email") or (record["id"] if record["alias"] else ""),
        "state": say(f"keys.state.{state}"),
        "looks": _STATE_MOODS[state],
        "owner": _owner_text(kind, record) or "–",
        "scope": " · ".join(part for part in scope if part),
        "spent": f"{spent} {currency}",
        "share": min(record["spend"] / budget, 1.0) if budget else None,
        "meter": _BUDGET_MOODS[record["budget_state"]],
        "period": " · ".join(period),
        "rates": " · ".join(rates) or "–",
        "last": _expiry_text(say, record) if kind.last == "expires" else f"{record['keys']:,}",
        "does": [(name, say(f"keys.{name}")) for name in actions],
    }


def field_text(record: Record, name: str) -> str:
    """Return what stands in the field `name` of a form for `record`, which is empty for a new one."""
    value = record.get(name)
    if name == "members":
        return ", ".join(member["user_id"] for member in value or ())
    return ", ".join(value) if isinstance(value, list) else str(value or "")


def changed_fields(values: Mapping[str, Any], record: Record) -> dict[str, Any]:
    """Return what the form's `values` change of `record`; null takes a limit away."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        if name in NUMBERS:
            if value != record.get(name):
                changed[name] = int(value) if value is not None and name in _COUNTS else value
        elif (text := (value or "").strip()) != field_text(record, name):
            names = split_names(text)
            changed[name] = (names if name in _LISTS else text) or None
            if name == "members":
                changed[name] = _members_from_names(names, record)
    return changed


def _members_from_names(names: list[str], record: Record) -> list[dict[str, str]]:
    """Return users of `names` as members of the team `record`; those it has keep their roles."""
    roles = {member["user_id"]: member["role"] for member in record.get("members", ())}
    return [{"user_id": name, "role": roles.get(name, "user")} for name in names]


def _owner_text(kind: RecordKind, record: Record) -> str:
    if kind.owner == "team":
        return " / ".join(name for name in (record["team"], record["user"]) if name)
    return field_text(record, kind.owner)


def _expiry_text(say: TextCatalog, record: Record) -> str:
    return (record["expires"] or "")[:16].replace("T", " ") or say("keys.never")
