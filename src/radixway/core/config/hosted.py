"""Workers that are a provider's hosted models: `provider` in place of `url` under `workers`."""

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from radixway.core.config.tenants import ModelPricing
from radixway.core.config.workers import PoolName, WorkerSettings, check_worker_url

ProviderName = Literal["openai", "anthropic", "gemini", "azure", "bedrock", "openai-compatible"]

_BASE_URLS: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "bedrock": "https://bedrock-runtime.{region}.amazonaws.com",
}
_USUAL_VARIABLES: Mapping[str, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "azure": "AZURE_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
}
_NOT_OURS = ("role", "disaggregation", "kv_tokens", "kv_events")
"""Traits of engines."""

ModelName = Annotated[str, Field(min_length=1, max_length=256)]


class CredentialMissingError(Exception):
    """The key of a hosted worker is not where it should be. The text says where that is."""


class HostedWorkerSettings(WorkerSettings):
    """Models of a provider, reached with one key."""

    provider: ProviderName
    """The API that it speaks. `openai-compatible`: any server of OpenAI's API; it needs `base_url`."""
    url: str
    """Made of `base_url`, or the provider's own, with `#name` where there is a name."""
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Tells workers with the same address apart; needed for the second one."""
    names: dict[ModelName, ModelName] = Field(default_factory=dict)
    """Made of `models`: by each model's name here, its name at the provider."""
    api_key_env: str | None = Field(default=None, min_length=1)
    """The environment variable with the key; by default the provider's usual one, such as OPENAI_API_KEY."""
    api_key_file: Path | None = None
    """The file with the key; it is read again when it changes."""
    region: str | None = Field(default=None, pattern=r"^[a-z0-9-]+$")
    """Bedrock's region; by default AWS_REGION."""
    pools: tuple[PoolName, ...] = ("hosted",)
    """Tenants that are confined to other pools never leave the own machines."""
    profile: str | None = None
    """The profile of AWS's own configuration whose credentials sign calls where there is no key."""
    api_version: str = "2024-10-21"
    """Azure's `api-version`."""
    pricing: ModelPricing | dict[ModelName, ModelPricing] | None = None
    """Prices per million tokens, of all its models or by the model's name here."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        fields = dict(given)
        if (provider := fields.get("provider")) not in (known := get_args(ProviderName)):
            raise ValueError(f"provider must be one of {', '.join(known)}, not {provider!r}")
        if unfit := [name for name in _NOT_OURS if name in fields]:
            raise ValueError(f"{unfit[0]} is of engines, not of a provider's models")
        names = fields.pop("models", None) or fields.get("names")
        if isinstance(names, str):
            names = [names]
        if isinstance(names, list | tuple):
            names = {name: name for name in names}
        if isinstance(version := fields.get("api_version"), date):  # which YAML takes it for
            fields["api_version"] = version.isoformat()
        if (deployment := fields.pop("deployment", None)) is not None:
            if names and len(names) > 1:
                raise ValueError("deployment is one model's: give models {name: deployment} in its place")
            names = dict.fromkeys(names or [deployment], deployment)
        if not names:
            raise ValueError("models: name the provider's models that it is to serve: {name: their-name}")
        fields["names"], fields["models"] = names, tuple(names) if isinstance(names, Mapping) else names
        fields["url"] = _worker_url(fields)
        return fields

    @model_validator(mode="after")
    def _check_key_source(self) -> Self:
        sources = (self.api_key, self.api_key_env, self.api_key_file)
        if sum(source is not None for source in sources) > 1:
            raise ValueError("give one of api_key, api_key_env and api_key_file")
        if isinstance(self.pricing, dict) and (unknown := self.pricing.keys() - self.names.keys()):
            raise ValueError(f"pricing: {min(unknown)!r} is not among its models")
        return self

    def read_key(self) -> str | None:
        """Return the key; None where AWS's own credentials sign calls, or the server needs none.

        Raises CredentialMissingError.
        """
        if self.api_key is not None:
            return self.api_key.get_secret_value()
        if self.api_key_file is not None:
            try:
                key = self.api_key_file.read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise CredentialMissingError(f"api_key_file {self.api_key_file}: {error}") from None
            return _check_key(key, f"api_key_file {self.api_key_file}")
        variable = self.api_key_env or _USUAL_VARIABLES.get(self.provider)
        key = os.environ.get(variable or "", "").strip()
        if key:
            return _check_key(key, f"environment variable {variable}")
        if self.api_key_env is None and self.provider in ("bedrock", "openai-compatible"):
            return None
        raise CredentialMissingError(f"its key is missing: the environment variable {variable} is not set")

    def hide_key(self, text: str) -> str:
        """Return `text` without the key, should it stand there."""
        try:
            key = self.read_key()
        except CredentialMissingError:
            key = None
        return text if key is None else text.replace(key, "(the key)")

    def pricing_of(self, model: str) -> ModelPricing | None:
        """Return the prices of `model`, named as here; None where they are not configured."""
        return self.pricing.get(model) if isinstance(self.pricing, dict) else self.pricing


def _check_key(key: str, place: str) -> str:
    if not key or not key.isascii() or not key.isprintable():
        raise CredentialMissingError(f"{place} holds no key: it must be printable ASCII")
    return key


def _worker_url(fields: dict[str, Any]) -> str:
    """Return the worker's URL by its `base_url` or its provider. Raises ValueError."""
    provider, name = fields.get("provider"), fields.get("name")
    given = fields.pop("base_url", None) or fields.pop("url", None)
    url = given or _BASE_URLS.get(str(provider))
    if url is None:
        raise ValueError(f"base_url: {provider} needs the address of its API")
    if provider == "bedrock":
        region = fields.get("region") or os.environ.get("AWS_REGION") or "us-east-1"
        fields["region"] = region
        url = str(url).replace("{region}", str(region))
    checked = check_worker_url(str(url).partition("#")[0])
    return f"{checked}#{name}" if name else checked


def _parse_worker(value: Any) -> Any:
    """Parse an entry of `workers` that has a `provider`; leave others to `WorkerSettings`.

    Raises ValueError naming the first mistake.
    """
    if not isinstance(value, Mapping) or "provider" not in value:
        return value
    try:
        return HostedWorkerSettings.model_validate(value)
    except ValidationError as error:
        mistake = error.errors()[0]
        place = ".".join(str(part) for part in mistake["loc"])
        message = mistake["msg"].removeprefix("Value error, ")
        raise ValueError(f"{place}: {message}" if place else message) from None


def _check_distinct(workers: tuple[WorkerSettings, ...]) -> tuple[WorkerSettings, ...]:
    """Return `workers`. Raises ValueError for hosted ones that nothing tells apart."""
    seen: set[str] = set()
    for worker in workers:
        if isinstance(worker, HostedWorkerSettings):
            if worker.url in seen:
                raise ValueError(f"two hosted workers have the address {worker.url}: give each a name")
            seen.add(worker.url)
    return workers


WorkerEntries: TypeAlias = Annotated[
    tuple[Annotated[SerializeAsAny[WorkerSettings], BeforeValidator(_parse_worker)], ...],
    AfterValidator(_check_distinct),
]
"""The section `workers`."""
_entries: TypeAdapter[tuple[WorkerSettings, ...]] = TypeAdapter(WorkerEntries)


def find_mistake(worker: Mapping[str, Any]) -> str | None:
    """Return what is wrong with an entry of `workers`; None if nothing is."""
    try:
        _entries.validate_python([worker])
    except ValidationError as error:
        return error.errors()[0]["msg"].removeprefix("Value error, ")
    return None
