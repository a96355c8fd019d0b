"""`guard.audit`: the record of what the guard did."""

from __future__ import annotations

from radixway.config.base import Section


class AuditSection(Section):
    """The audit log."""
