"""What the workers of a model come to: the models that aliases stand for, its state, its tokenizer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING

from radixway.core.config import ModelSplit
from radixway.core.config.routing import AliasTarget, SessionConfig
from radixway.core.pipeline import ANY_MODEL, Request, TenantPolicy
from radixway.routing.prompt_reader import find_session
from radixway.routing.tokenizer_registry import PromptTokenizer, TokenizerRegistry
from radixway.routing.worker import Worker
from radixway.routing.worker_registry import WorkerRegistry

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer

DEFAULT_MODEL = "default"


_MAX_MATCHED_NAMES = 1024
"""Names of which it is remembered what they stand for."""


class DefaultModelResolver:
    """Resolves `default` and other aliases by what is configured and served at the moment."""

    def __init__(
        self,
        registry: WorkerRegistry,
        configured: Callable[[], str],
        is_auto: Callable[[str], bool],
        aliases: Mapping[str, AliasTarget] | None = None,
        session: SessionConfig | None = None,
    ) -> None:
        """`configured`: a model's name, or empty. `is_auto`: does a name leave the choice to the gateway?
        `aliases`: by name or pattern, the model that it stands for. `session`: what names the sessions that
        keep their model of a split.
        """
        self._session = SessionConfig() if session is None else session
        self._registry = registry
        self._configured = configured
        self._is_auto = is_auto
        self._aliases: dict[str, AliasTarget] = {DEFAULT_MODEL: DEFAULT_MODEL, **(aliases or {})}
        self._find_target = lru_cache(_MAX_MATCHED_NAMES)(self._match_alias)

    def resolve_model(
        self, name: str, tenancy: TenantPolicy | None, request: Request | None = None
    ) -> str | None:
        """Return the model that the alias `name` stands for; None where it is no alias, or stands for none.

        A model that a worker serves under that name comes first. Of a split it is the model of the session of
        `request`, whose journal says so, or without one the model with the highest weight.
        """
        if name in self._registry.known_models():
            return None
        target = self._find_target(name)
        if target is None or self._is_auto(name):
            return None
        if isinstance(target, ModelSplit):
            return self._draw_model(name, target, tenancy, request)
        return self.resolve_default_model(tenancy) if target == DEFAULT_MODEL else target

    def split_of(self, alias: str) -> Mapping[str, float] | None:
        """Return the weights of the models that `alias` stands for, if it is a split."""
        target = self._aliases.get(alias)
        return target.split if isinstance(target, ModelSplit) else None

    def _draw_model(
        self, alias: str, target: ModelSplit, tenancy: TenantPolicy | None, request: Request | None
    ) -> str | None:
        """Return the model of `request` among those of `target` that `tenancy` may use."""
        weights = {
            model: weight
            for model, weight in target.split.items()
            if weight and (tenancy is None or tenancy.allows_model(model))
        }
        if not weights:
            return None
        if request is None:
            return max(weights, key=weights.__getitem__)
        session = find_session(request, self._session)
        digest = blake2b(f"{alias}\0{session or request.id}".encode(), digest_size=8).digest()
        point = int.from_bytes(digest) / 2**64 * sum(weights.values())
        ends = zip(weights, accumulate(weights.values()), strict=True)
        model = next((model for model, end in ends if point < end), next(reversed(weights)))
        request.journal.add(
            "split", alias=alias, model=model, weights=weights, by="session" if session else "request"
        )
        return model

    def list_aliases(self, tenancy: TenantPolicy | None) -> dict[str, str]:
        """Return the aliases that are names, no patterns, with the served model that each stands for."""
        served = self._registry.known_models()
        names = (name for name in self._aliases if name != DEFAULT_MODEL and not _is_pattern(name))
        found = ((name, self.resolve_model(name, tenancy)) for name in names)
        return {name: model for name, model in found if model is not None and model in served}

    def _match_alias(self, name: str) -> str | ModelSplit | None:
        if name in self._aliases:
            return self._aliases[name]
        patterns = (alias for alias in self._aliases if _is_pattern(alias))
        return next((self._aliases[each] for each in patterns if fnmatchcase(name, each)), None)

    def resolve_default_model(self, tenancy: TenantPolicy | None) -> str | None:
        """The configured default, else the first model of the first worker; in each case one that `tenancy`
        may use.

        None where the name means something else already, or no model is known.
        """
        served = self._registry.known_models()
        if DEFAULT_MODEL in served or self._is_auto(DEFAULT_MODEL):
            return None
        configured = self._configured()
        if configured in served and (tenancy is None or tenancy.allows_model(configured)):
            return configured
        return next(self._usable_models(tenancy), None)

    def _usable_models(self, tenancy: TenantPolicy | None) -> Iterator[str]:
        for worker in self._registry:
            if tenancy is None or tenancy.may_use_worker(worker.pools, worker.models):
                yield from (
                    model for model in worker.models if tenancy is None or tenancy.allows_model(model)
                )


def _is_pattern(alias: str) -> bool:
    return any(sign in alias for sign in "*?[")


@dataclass(frozen=True, slots=True)
class ModelWorkers:
    """`pipeline.ModelState` of the registry's workers."""

    candidates: Sequence[Worker]
    now: float
    """Monotonic seconds, by the ledger's clock."""

    @property
    def workers(self) -> int:
        return len(self.candidates)

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        """Return the shortest wait at any worker: its queued prefills and this one; 0 without workers."""
        return min(
            (
                worker.load.queue_s(self.now) + worker.load.rate.prefill_s(prompt_tokens)
                for worker in self.candidates
            ),
            default=0.0,
        )


def find_model_state(registry: WorkerRegistry, model: str, now: float) -> ModelWorkers | None:
    """The model's workers; None for a model that no known worker serves."""
    candidates = registry.candidates(model)
    if not candidates and model not in registry.known_models():
        return None
    return ModelWorkers(candidates, now)


class ModelTokenizerLookup:
    """A `TokenizerOf`: waits for a tokenizer that is being loaded."""

    def __init__(self, registry: WorkerRegistry, tokenizers: TokenizerRegistry, source: str | None) -> None:
        """`source`: directory or hub id of the one tokenizer to use for every model, if there is one.

        Raises ConfigError for a directory that holds none.
        """
        self._registry = registry
        self._tokenizers = tokenizers
        self._source = tokenizers.preload_tokenizer(source) if source is not None else None

    async def __call__(self, model: str | None) -> tuple[str, Tokenizer | None]:
        """The model's name, what the workers serve first if it is None, and its tokenizer."""
        requested = None if model == ANY_MODEL else model
        workers = self._registry.candidates(requested) or list(self._registry)
        name = requested or next((worker.models[0] for worker in workers if worker.models), "")
        found = self._find_tokenizer(name, workers)
        if found is None and self._tokenizers.is_loading:
            await asyncio.to_thread(self._tokenizers.wait_loaded)
            found = self._find_tokenizer(name, workers)
        return name, None if found is None else found.tokenizer

    def _find_tokenizer(self, name: str, workers: Sequence[Worker]) -> PromptTokenizer | None:
        if self._source is not None:
            return self._tokenizers.get_preloaded(self._source)
        return self._tokenizers.find_tokenizer(name or None, workers)
