"""What the rows of *Keys* show of a key, a team and a user, and what a form sends."""

import pytest

from radixway.console.pages.keys.kinds import KINDS, changed_fields, record_cells
from radixway.console.texts import TextCatalog

KEYS, TEAMS, USERS = KINDS
LIMITS = {"rpm_limit": None, "tpm_limit": 2000, "max_parallel_requests": None}
SPENT = {
    "max_budget": None,
    "soft_budget": None,
    "budget_duration": None,
    "currency": "USD",
    "spend": 0.0,
    "budget_state": "ok",
}
COMMON = {"id": "r1", "alias": None, "models": [], "blocked": False} | LIMITS | SPENT
KEY = {"shown": "sk-…abcd", "state": "active", "team": "red", "user": "anna"} | COMMON
KEY |= {"endpoints": ["/v1/*"], "scopes": ["user", "admin"], "expires": "2026-12-01T10:20:30+00:00"}
MEMBERS = [{"user_id": "anna", "role": "admin"}, {"user_id": "ben", "role": "user"}]


@pytest.mark.parametrize(
    ("kind", "record", "shown"),
    [
        (KEYS, KEY, {"owner": "red / anna", "last": "2026-12-01 10:20", "spent": "0 USD", "share": None}),
        (KEYS, KEY, {"scope": "all models · /v1/* · user, admin", "rates": "2,000 tokens/min"}),
        (
            KEYS,
            KEY | {"max_budget": 4e6, "spend": 1e6},
            {"spent": "1,000,000 of 4,000,000 USD", "share": 0.25},
        ),
        (
            KEYS,
            KEY | {"max_budget": 0.0, "budget_state": "exceeded"},
            {"spent": "0 of 0 USD", "meter": "bad"},
        ),
        (TEAMS, COMMON | {"members": MEMBERS, "keys": 3}, {"owner": "anna, ben", "last": "3"}),
        (TEAMS, COMMON | {"members": [], "keys": 0, "blocked": True}, {"owner": "–", "state": "blocked"}),
        (
            USERS,
            COMMON | {"teams": ["red"], "keys": 1, "email": "a@b.org"},
            {"owner": "red", "shown": "a@b.org"},
        ),
    ],
)
def test_a_row_shows(kind, record, shown):
    cells = record_cells(TextCatalog("en"), kind, record)
    assert {name: cells[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("values", "record", "changed"),
    [
        ({"alias": "", "models": "", "duration": "", "max_budget": None}, {}, {}),
        (
            {"alias": " a ", "models": "m, n*", "max_budget": 0},
            {},
            {"alias": "a", "models": ["m", "n*"], "max_budget": 0},
        ),
        ({"duration": " ", "max_budget": 4, "rpm_limit": 7}, {"max_budget": 4.0, "rpm_limit": 7}, {}),
        (
            {"models": "", "max_budget": None},
            {"models": ["m"], "max_budget": 4.0},
            {"models": None, "max_budget": None},
        ),
        ({"rpm_limit": 8.0}, {"rpm_limit": 7}, {"rpm_limit": 8}),
        ({"members": "Smith, Anna"}, {"members": [{"user_id": "Smith, Anna", "role": "admin"}]}, {}),
        (
            {"members": "carl, anna"},
            {"members": MEMBERS},
            {"members": [{"user_id": "carl", "role": "user"}, {"user_id": "anna", "role": "admin"}]},
        ),
        ({"members": ""}, {"members": MEMBERS}, {"members": []}),
    ],
)
def test_a_form_sends_what_was_changed(values, record, changed):
    assert changed_fields(values, record) == changed
