"""Names of things: in the order in which they were made."""

from __future__ import annotations

import uuid6


def new_id() -> str:
    """A UUID, version 7: ids that one process makes sort by time."""
    return str(uuid6.uuid7())
