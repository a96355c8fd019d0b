"""Contexts: the typed state that each layer keeps on a `Request`."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache
from typing import Literal

import msgspec

from radixway.core.config import ModelPricing
from radixway.core.telemetry import SharedObject

_MAX_MATCHED_MODELS = 256
"""Models of which a tenant's policy remembers whether it allows them."""


@dataclass(frozen=True, slots=True)
class TenantPolicy(SharedObject):
    """A tenant, as far as the pipeline must know it; what it may spend is known to `core/tenants/` alone."""

    name: str
    models: re.Pattern[str] | None = None
    """Pattern of the models that it may use (`model_pattern`); None: all."""
    pools: frozenset[str] = frozenset()
    """Its workers belong to one of these; empty: all workers."""
    cache_namespace: str = ""
    cache_salt: str | None = None
    """Separates its prefixes in engines' caches."""
    guard: str | None = None
    allows_model: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    """Returns whether it may use a model."""
    restricts_workers: bool = field(init=False)
    """True if there are workers that may not answer it."""

    def __post_init__(self) -> None:
        models = self.models
        # A dictionary's price instead of a regular expression's, for each worker and request.
        matches = lru_cache(_MAX_MATCHED_MODELS)(
            lambda model: models is None or bool(models.fullmatch(model))
        )
        object.__setattr__(self, "allows_model", matches)
        object.__setattr__(self, "restricts_workers", models is not None or bool(self.pools))

    def explain(self) -> dict[str, str]:
        return {"tenant": self.name}

    def may_use_worker(self, pools: Collection[str], models: Collection[str]) -> bool:
        """Return whether a worker of these pools that serves these models may answer some request of it."""
        if self.pools and self.pools.isdisjoint(pools):
            return False
        return self.models is None or any(map(self.allows_model, models))

    def narrowed_to(self, models: re.Pattern[str] | None) -> "TenantPolicy":
        """Return the policy of a key that may use those of its models that match `models`; None: all."""
        return self if models is None else _narrow_policy(self, models)


@lru_cache(1024)
def _narrow_policy(policy: TenantPolicy, models: re.Pattern[str]) -> TenantPolicy:
    return replace(policy, models=match_both(policy.models, models))


def model_pattern(patterns: Collection[str]) -> re.Pattern[str] | None:
    """Return one regular expression for `patterns`, names or globs (`qwen-*`); None where there are none."""
    return re.compile("|".join(map(translate, patterns))) if patterns else None


def match_both(one: re.Pattern[str] | None, other: re.Pattern[str] | None) -> re.Pattern[str] | None:
    """Return a pattern of what matches both of these; None matches all."""
    if one is None or other is None:
        return one or other
    return re.compile(f"(?={one.pattern})(?:{other.pattern})")


class CallerKey(ABC):
    """A key that was made at run time; its budgets are known to `core/tenants/` alone."""

    id: str
    """Its public name."""


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The identity that authentication gives a request."""

    tenant: str = "default"
    """Tenants never share answers."""
    user: str | None = None
    """The tenant's user, where the gateway knows it better than the body."""
    policy: TenantPolicy | None = None
    """Policy of the tenant, of the key where that allows less; None without tenants."""
    key: CallerKey | None = None
    """The key, where it was made at run time."""

    @property
    def cache_namespace(self) -> str:
        """The namespace of the cached answers that this caller may be given."""
        return self.tenant if self.policy is None else self.policy.cache_namespace or self.tenant


ANONYMOUS = Caller()
"""Shared by the requests that nothing is known about."""


@dataclass(frozen=True, slots=True)
class SemanticContext:
    """The semantic layer's findings that other layers may read; that layer extends it with its own."""

    category: str | None
    """The subject of the request."""
    decision: str | None
    """The rule that decided about it, where one did."""


UNCLASSIFIED = SemanticContext(None, None)
"""Shared by the requests that the semantic layer has not judged."""


@dataclass(slots=True, eq=False)
class CacheContext:
    """The state of one request at the semantic cache."""

    status: Literal["miss", "bypass"] | None = None
    """The outcome of the lookup, where the request went on; None where there is no cache."""
    bypass_reason: str | None = None
    """Why neither request nor answer may be cached, a short word of the layer that forbids it: `pii`."""
    min_similarity: float | None = None
    """Least cosine at which a cached answer will do, where the request's category has one of its own."""


class DataPlane(ABC):
    """A proxy in front of the gateway that can carry a request to its worker itself.

    Routing extends it with the call that does so (`routing.transports.RequestForwarder`).
    """

    @property
    @abstractmethod
    def is_free(self) -> bool:
        """True until it was given a request to carry. It takes one request once: what is asked again after
        that (the rest of an aborted answer) goes over the gateway's own connections."""


class RoutingContext(msgspec.Struct, eq=False):
    """The workers and models that routing tried for one request."""

    data_plane: DataPlane | None = None
    """Carries the request to its worker in place of the gateway's own connections."""
    active_workers: list[str] = msgspec.field(default_factory=list)
    """Names of the workers that are answering it now."""
    failed_workers: list[str] = msgspec.field(default_factory=list)
    """Names of the workers that failed it already; routing prefers others."""
    attempted_workers: list[str] = msgspec.field(default_factory=list)
    """Names of the workers it was sent to, in that order."""
    metrics_model: str = "unknown"
    """The model as metrics may name it: as asked for, once it is known that a worker serves it."""
    resolved_model: str | None = None
    """The model that its worker was asked for, by name; None until then, or where that is not known."""
    fallback_model: str | None = None
    """The model that answers in place of the one asked for."""
    overflow: str | None = None
    """Why a hosted worker is asked, in words."""
    pricing: ModelPricing | None = None
    """Prices of the hosted worker that was asked last; None for an own one, or where it has none."""
    prompt_tokens: int | None = None
    """Length of the prompt, where routing had it tokenized."""
