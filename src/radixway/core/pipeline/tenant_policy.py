"""The policy of a tenant: which models and workers may answer it, and what it may share."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import translate

from radixway.core.telemetry import SharedObject


@dataclass(frozen=True, slots=True)
class TenantPolicy(SharedObject):
    """A tenant, as far as the pipeline must know it; what it may spend is known to `core/tenants/` alone."""

    name: str
    models: re.Pattern[str] | None = None
    """What the models' names that it may use look like (`model_pattern`); None: all."""
    pools: frozenset[str] = frozenset()
    """Its workers belong to one of these; empty: all workers."""
    cache_namespace: str = ""
    """Whose kept answers it is given."""
    cache_salt: str | None = None
    """What keeps its prefixes apart in engines' caches."""
    guard: str | None = None
    """The guard's policy for it."""

    def explain(self) -> dict[str, str]:
        """For the journal."""
        return {"tenant": self.name}

    @property
    def restricts_workers(self) -> bool:
        """True if there are workers that may not answer it."""
        return self.models is not None or bool(self.pools)

    def allows_model(self, model: str) -> bool:
        """Return whether it may use the model."""
        return self.models is None or self.models.fullmatch(model) is not None

    def may_use_worker(self, pools: Collection[str], models: Collection[str]) -> bool:
        """Return whether a worker of these pools that serves these models may answer some request of it."""
        if self.pools and self.pools.isdisjoint(pools):
            return False
        return self.models is None or any(self.models.fullmatch(model) for model in models)


def model_pattern(patterns: Collection[str]) -> re.Pattern[str] | None:
    """Return one regular expression for `patterns`, names or globs (`qwen-*`), letter case included; None
    where there are none.
    """
    return re.compile("|".join(map(translate, patterns))) if patterns else None
