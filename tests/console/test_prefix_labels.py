"""What prefixes are called, without a browser."""

import pytest

from radixway.console.pages.prefixes.charts import prefix_rows, prefix_tree
from radixway.console.texts import TextCatalog


def prefix(**fields):
    """A prefix as `/prefixes` has it."""
    usual = {
        "id": 0,
        "parent": None,
        "kind": "prefix",
        "name": "0123456789abcdef",
        "tokens": 272,
        "begin": 0,
        "heat": 3,
        "last_used": None,
        "hidden": 0,
        "hidden_tokens": 0,
        "text": None,
        "tenants": [],
        "workers": [],
        "held_by": [],
    }
    return usual | fields


ACME, OTHER = {"name": "acme", "requests": 2}, {"name": "other", "requests": 1}


@pytest.mark.parametrize(
    ("fields", "label", "short"),
    [
        ({}, "272 tokens", "272 tokens"),
        ({"tenants": [ACME]}, "272 tokens · acme", "272 tokens"),
        ({"tenants": [ACME, OTHER]}, "272 tokens", "272 tokens"),
        ({"text": "You are\na guide."}, "“You are a guide.” · 272 tokens", "You are a guide."),
        ({"text": "word " * 20}, f"“{'word ' * 6}wo…” · 272 tokens", ("word " * 20).strip()),
        ({"kind": "model", "name": "m"}, "m", "m"),
        ({"kind": "model", "name": ""}, "any model", "any model"),
    ],
)
def test_a_label_says_what_may_be_shown_and_whose_it_is(fields, label, short):
    say, given = TextCatalog("en"), [prefix(**fields)]
    assert prefix_rows(say, given)[0]["name"] == label
    (node,) = prefix_tree(say, given, "tokens")
    assert (node["name"], node["short"]) == (label, short)
