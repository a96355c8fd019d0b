"""The tokenizer that a model's workers use, for whoever needs it outright rather than soon."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from radixway.pipeline import ANY_MODEL
from radixway.routing.registry import WorkerRegistry
from radixway.routing.tokenizers import PromptTokenizer, TokenizerRegistry
from radixway.routing.worker import Worker

if TYPE_CHECKING:
    from radixway.tokenizer import Tokenizer


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
        asked = None if model == ANY_MODEL else model
        workers = self._registry.candidates(asked) or list(self._registry)
        name = asked or next((worker.models[0] for worker in workers if worker.models), "")
        found = self._find_tokenizer(name, workers)
        if found is None and self._tokenizers.is_loading:
            await asyncio.to_thread(self._tokenizers.wait_loaded)
            found = self._find_tokenizer(name, workers)
        return name, None if found is None else found.tokenizer

    def _find_tokenizer(self, name: str, workers: Sequence[Worker]) -> PromptTokenizer | None:
        if self._source is not None:
            return self._tokenizers.get_preloaded(self._source)
        return self._tokenizers.find_tokenizer(name or None, workers)
