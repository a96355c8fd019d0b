"""What a gateway has that reads texts: the encoder, the semantic layer, the semantic cache, as configured.

Their rooms are imported only where something is on that needs them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radixway.config import Config, ConfigError, Pricing, WorkerSection, radixway_home
from radixway.pipeline import ANY_MODEL, Middleware, ModelStates
from radixway.telemetry import Metrics

if TYPE_CHECKING:
    from radixway.config import SemanticCacheSection
    from radixway.config.semantic import SemanticSection
    from radixway.encoders import EncoderService
    from radixway.semantic.build import SemanticRoom
    from radixway.semantic_cache import CacheRoom


VSR = "vllm-semantic-router"
"""`owned_by`, as published."""


def _whole(config: Config) -> tuple[SemanticSection | None, SemanticCacheSection]:
    """The semantic section, where it is on, with the file that it names, and the cache as both want it."""
    given = config.semantic
    if given is None or not given.is_on:
        return None, config.semantic_cache
    from radixway.config.semantic import whole_cache, whole_semantic

    section = whole_semantic(given)
    return section, whole_cache(config.semantic_cache, section)


class Understanding:
    """The rooms that read, in the order in which requests pass them."""

    def __init__(self, config: Config, metrics: Metrics, states: ModelStates) -> None:
        """Raises ConfigError: a file cannot be read, packages are missing."""
        self._config = config
        self._metrics = metrics
        self._section, self._caching = _whole(config)
        self.encoders = self._start_encoders()
        self.cache = self._build_cache()
        self.semantic = self._build_semantic(states)

    def middlewares(self) -> Iterator[Middleware]:
        """Outermost first: one pass of the encoder for all, what blocks, the cache, the decision, tools."""
        if self.encoders is None or (self.semantic is None and self.cache is None):
            return
        from radixway.encoders import OnePass

        yield OnePass(self.encoders, wait_s=self._config.encoders.wait_s)
        if self.semantic is not None:
            yield self.semantic.detect
        if self.cache is not None:
            yield self.cache.middleware
        if self.semantic is not None:
            yield self.semantic.middleware
            yield self.semantic.tools

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises ConfigError for what only shows when it is used."""
        async with AsyncExitStack() as stack:
            if self.encoders is not None:
                stack.push_async_callback(self.encoders.aclose)
            if self.cache is not None:
                self.cache.middleware.encoder = await self._encoder_id()
                await stack.enter_async_context(self.cache.running())
            if self.semantic is not None:
                await stack.enter_async_context(self.semantic.running())
            yield

    def reports(self) -> dict[str, Callable[[], Any]]:
        """For `/health`."""
        said: dict[str, Callable[[], Any]] = {}
        if self.cache is not None:
            said["semantic_cache"] = self.cache.describe
        if self.semantic is not None:
            said["semantic"] = self.semantic.snapshots.describe
        return said

    def model_names(self) -> dict[str, str]:
        """By name that a request may ask for beside those of workers: who answers for it."""
        if self.semantic is None:
            return {}
        section = self.semantic.snapshots.current.section
        names = {"auto": VSR, section.auto_model_name: VSR}
        if section.include_config_models_in_list:
            names |= dict.fromkeys(section.model_names(), VSR)
        return names

    def is_auto(self, model: str) -> bool:
        """Whether that name leaves the choice to the gateway."""
        return model == ANY_MODEL if self.semantic is None else self.semantic.snapshots.current.is_auto(model)

    def pricing_of(self, model: str) -> Pricing | None:
        """What the semantic layer was told that the model costs."""
        known = {} if self.semantic is None else self.semantic.snapshots.current.section.models
        return known[model].pricing if model in known else None

    def workers(self) -> list[WorkerSection]:
        """What the semantic configuration names as endpoints."""
        if self._section is None:
            return []
        return [
            WorkerSection(url=endpoint.url, models=self._section.models_at(endpoint), pools=(endpoint.name,))
            for endpoint in self._section.vllm_endpoints
        ]

    def _start_encoders(self) -> EncoderService | None:
        if self._section is None and not self._caching.enabled and not self._config.encoders.preload:
            return None  # whoever asks what a text is starts it then
        try:
            from radixway.encoders import start_service
        except ImportError as error:
            raise ConfigError(
                f"semantic, semantic_cache and encoders.preload need radixway[semantic]: {error}"
            ) from None
        given: tuple[Path | None, Path | None] = (None, None)
        if self._section is not None:
            from radixway.config.semantic import on_this_machine

            category = self._section.classifier.category_model
            given = on_this_machine(category.model_id, category.category_mapping_path)
        return start_service(self._config.encoders, *given)

    def _build_cache(self) -> CacheRoom | None:
        if not self._caching.enabled or self.encoders is None:
            return None
        from radixway.semantic_cache import build_semantic_cache, embed_with, verify_with

        encoders = self.encoders
        return build_semantic_cache(self._caching, embed_with(encoders), self._metrics, verify_with(encoders))

    def _build_semantic(self, states: ModelStates) -> SemanticRoom | None:
        if self._section is None or self._config.semantic is None or self.encoders is None:
            return None
        from radixway.config.semantic import is_cached_by_default
        from radixway.semantic.build import build_room
        from radixway.semantic.cache_rules import CacheDefault

        caching = None
        if self.cache is not None:
            enabled = is_cached_by_default(self._config.semantic_cache, self._section)
            caching = CacheDefault(enabled, bool(self._caching.category_thresholds))
        home = (self._config.encoders.home or radixway_home() / "encoders").expanduser()
        return build_room(
            self._config.semantic, states, self.encoders, cache=caching, home=home, metrics=self._metrics
        )

    async def _encoder_id(self) -> str:
        """What made the cache's vectors. Without an encoder there are none, only literal repeats."""
        from radixway.encoders import EncoderError

        assert self.encoders is not None
        try:
            return (await self.encoders.ready()).id
        except EncoderError:
            return "none"
