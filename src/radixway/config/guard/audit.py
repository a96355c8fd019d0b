"""`guard.audit`: the record of what the guard did."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from radixway.config.base import ConfigSection
from radixway.config.guard.pii import OnError


class AuditConfig(ConfigSection):
    """The audit log (docs/guard.md)."""

    enabled: bool | None = None
    """By default while the guard is on."""
    path: Path | None = None
    """Its directory; by default `audit` in RADIXWAY_HOME."""
    key_env: str | None = Field(default=None, min_length=1)
    """The environment variable with the key under which entries are hashed: whoever can write the files, but
    does not know it, cannot forge them."""
    key_file: Path | None = None
    """The file that holds it, in place of `key_env`; white space around it left out."""
    retention_days: int | None = Field(default=365, ge=1)
    """Files whose entries are all older are removed. None: none ever is."""
    max_file_mib: int = Field(default=64, ge=1)
    """A file that has grown so large is followed by another one, as at the end of each day (UTC)."""
    on_error: OnError = "allow"
    """What becomes of requests while it cannot be written."""

    @model_validator(mode="after")
    def _check_single_key(self) -> Self:
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("give one of key_env and key_file")
        return self
