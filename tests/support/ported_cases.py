"""Cases of other projects' test suites, ported: how each names its original.

A suite is a folder of `tests/peers/` with a `suite.toml` (what it is, what it runs against, which cases of
the original cannot apply here, which fail today, and why) and test modules, each of whose tests is marked
with `ported`. `make peers` counts them (`benchmarks/peer_suites.py`). `make test-all` runs them too, those
that need no other packages: there a case that is listed under `fails` may fail, and no other.
"""

from __future__ import annotations

import pytest


def ported(source: str, case: str) -> pytest.MarkDecorator:
    """Mark a test as the port of `case` of the file `source`, a path in the suite's repository.

    Parameters of the original that are parameters here are added to `case` where it is shown.
    """
    return pytest.mark.ported(source, case)


def original_of(item: pytest.Item) -> str:
    """`FILE::CASE` of the original, with this item's parameters in brackets.

    Raises `LookupError` where `item` is not marked.
    """
    mark = item.get_closest_marker("ported")
    if mark is None:
        raise LookupError(f"{item.nodeid} does not say what it is a port of: mark it with `ported`")
    source, case = mark.args
    _, bracket, parameters = item.name.partition("[")
    return f"{source}::{case}{bracket}{parameters}"
