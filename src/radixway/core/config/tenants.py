"""The `tenants` section: who may ask for what, how much of it, and what it costs them."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, field_validator, model_validator

from radixway.core.config.base import Bearer, ConfigSection
from radixway.core.config.workers import PoolName


class ModelPricing(ConfigSection):
    """Prices per million tokens."""

    currency: str = Field(default="USD", min_length=1, max_length=16)
    """Currency of both."""
    prompt_per_1m: float = Field(default=0, ge=0)
    """A million tokens of prompts."""
    completion_per_1m: float = Field(default=0, ge=0)
    """A million tokens of answers."""

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of `prompt_tokens` and `completion_tokens`, in `currency`."""
        return (prompt_tokens * self.prompt_per_1m + completion_tokens * self.completion_per_1m) / 1e6


def format_cost(cost: float) -> str:
    """`cost` in digits, never with an exponent: six that count, and all of those before the point.

    >>> format_cost(4.06e-05), format_cost(1234567.5), format_cost(12.0)
    ('0.0000406', '1,234,567.5', '12')
    """
    exact = Decimal(repr(cost))
    if not exact.is_finite() or not exact:
        return f"{cost:g}"
    places = max(5 - exact.adjusted(), 2)
    return f"{exact:,.{places}f}".rstrip("0").rstrip(".")


DEFAULT_TENANT = "default"
"""Tenant of requests without a key, where no keys are configured."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_tenant_name(name: str) -> str:
    """Return `name` where a tenant may be called so. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name: 1 to 64 letters, digits and . _ -, beginning with a letter or digit"
        )
    return name


def _check_salt(salt: SecretStr) -> SecretStr:
    if not salt.get_secret_value():
        raise ValueError("an empty salt keeps nothing apart")
    return salt


Name = Annotated[str, AfterValidator(check_tenant_name)]
Salt = Annotated[SecretStr, AfterValidator(_check_salt)]
ModelPattern = Annotated[str, Field(min_length=1, max_length=256)]
Scope = Literal["user", "trusted", "admin", "worker", "metrics"]


class KeyConfig(ConfigSection):
    """An API key: itself, or rather where it is to be found. Exactly one of the first four."""

    key: Bearer | None = None
    key_env: str | None = Field(default=None, min_length=1)
    """The environment variable that holds it."""
    key_file: Path | None = None
    """The file that holds it, white space around it left out."""
    key_sha256: str | None = Field(default=None, pattern="^[0-9a-fA-F]{64}$")
    """Its SHA-256 in hexadecimal, as `printf %s KEY | sha256sum` prints it."""
    user: str | None = Field(default=None, min_length=1, max_length=256)
    """The key's user of the tenant."""
    scopes: tuple[Scope, ...] = Field(default=("user",), min_length=1)
    """`user`: may ask models. `trusted`: also, its `x-tenant-id`, `x-vsr-*` and destination headers count.
    `admin`: also, administrative calls. `worker`: may add and remove workers, and nothing else. `metrics`:
    may read `/metrics` and all of `/health`, and nothing else."""

    @model_validator(mode="after")
    def _check_single_source(self) -> Self:
        given = (self.key, self.key_env, self.key_file, self.key_sha256)
        if sum(each is not None for each in given) != 1:
            raise ValueError("give one of key, key_env, key_file and key_sha256")
        return self


class RatesConfig(ConfigSection):
    """Rates at which a tenant may ask. None: no limit."""

    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Prompts and answers."""
    concurrent: int | None = Field(default=None, ge=1)
    """Requests in flight at a time."""


class QuotasConfig(ConfigSection):
    """Amounts that a tenant may use in a day and in a calendar month, UTC. None: no limit."""

    tokens_per_day: int | None = Field(default=None, ge=1)
    tokens_per_month: int | None = Field(default=None, ge=1)
    cost_per_day: float | None = Field(default=None, gt=0)
    cost_per_month: float | None = Field(default=None, gt=0)
    currency: str = "USD"
    """Currency of the costs. Models that the tenant may use must not be priced in another one."""

    @property
    def has_cost_quota(self) -> bool:
        """True if costs are limited."""
        return self.cost_per_day is not None or self.cost_per_month is not None

    @property
    def has_token_quota(self) -> bool:
        """True if tokens are limited."""
        return self.tokens_per_day is not None or self.tokens_per_month is not None


class TenantConfig(ConfigSection):
    """A tenant."""

    keys: tuple[KeyConfig, ...] = ()
    models: tuple[ModelPattern, ...] = ()
    """The models it may use, by name or pattern (`qwen-*`); empty: all."""
    pools: tuple[PoolName, ...] = ()
    """Its requests go to workers of one of these pools only; empty: to all workers."""
    cache_salt: Salt | None = None
    """Sent with its requests, so that engines share none of its cached prefixes with others. A secret."""
    cache_namespace: Name | None = None
    """Shared cache name: tenants with the same one share answers. By default its own alone."""
    guard: Name | None = None
    """The guard's policy for it."""
    rates: RatesConfig = RatesConfig()
    quotas: QuotasConfig = QuotasConfig()

    @field_validator("keys", "models", "pools", mode="before")
    @classmethod
    def _from_environment(cls, value: Any) -> Any:
        """Decode JSON lists from the environment; pydantic does so only for fields that it knows."""
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            return value


class UsageConfig(ConfigSection):
    """Counting of usage."""

    persist: bool = False
    """Keep it in a SQLite file, so that quotas outlive a restart."""
    path: Path | None = None
    """Path of the file; by default usage.sqlite in RADIXWAY_HOME."""
    flush_s: float = Field(default=1.0, gt=0)
    """How long what was counted is gathered before it is written."""
    keep_days: int = Field(default=400, ge=31)
    """Older days are forgotten."""
    most_rows: int = Field(default=50_000, ge=1)
    """Days, tenants, models and categories told apart; beyond that the oldest day is forgotten."""


class TenantsConfig(ConfigSection):
    """Tenants by name, and what concerns all of them. None is configured: all requests are `default`'s."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, TenantConfig] = Field(init=False)

    usage: UsageConfig = UsageConfig()
    pricing: dict[ModelPattern, ModelPricing] = Field(default_factory=dict)
    """By a model's name or pattern, the first that fits; goes before `pricing` under `semantic`."""

    @model_validator(mode="after")
    def check_tenant_names(self) -> Self:
        for name in self.named:
            check_tenant_name(name)
        return self

    @property
    def named(self) -> dict[str, TenantConfig]:
        """The tenants, without `default` where that is not configured."""
        return self.__pydantic_extra__

    @property
    def is_on(self) -> bool:
        """True if anything is configured here: requests are counted, and may be limited."""
        return bool(self.model_fields_set or self.named)
