"""What the workers of a model come to: the model named `default`, its state, its tokenizer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from radixway.core.pipeline import ANY_MODEL, TenantPolicy
from radixway.routing.tokenizer_registry import PromptTokenizer, TokenizerRegistry
from radixway.routing.worker import Worker
from radixway.routing.worker_registry import WorkerRegistry

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer

DEFAULT_MODEL = "default"


class DefaultModelResolver:
    """Resolves the name by what is configured and served at the moment."""

    def __init__(
        self, registry: WorkerRegistry, configured: Callable[[], str], is_auto: Callable[[str], bool]
    ) -> None:
        """`configured`: a model's name, or empty. `is_auto`: does a name leave the choice to the gateway?"""
        self._registry = registry
        self._configured = configured
        self._is_auto = is_auto

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
