"""Builds what reads texts in a gateway, as configured: encoder, guard, semantic layer, semantic cache.

Their packages are imported only where the configuration needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from radixway.core.component import Component
from radixway.core.config import Config, ConfigError, ModelPricing, WorkerSettings, radixway_home
from radixway.core.config.guard import check_policies, is_guard_ever_requested
from radixway.core.pipeline import (
    ANY_MODEL,
    Endpoint,
    GuardFindings,
    Middleware,
    ModelStates,
    PersonalDataFinder,
    Request,
    TokenizerOf,
)
from radixway.core.telemetry import MetricsRegistry

if TYPE_CHECKING:
    from radixway.core.config import SemanticCacheConfig
    from radixway.core.config.semantic import SemanticConfig
    from radixway.semantics.cache import CacheRoom
    from radixway.semantics.decisions.service import SemanticService
    from radixway.semantics.encoders import EncoderService
    from radixway.semantics.guard.answers.guarded_reply import GuardedParts
    from radixway.semantics.guard.incident import IncidentRecorder
    from radixway.semantics.guard.jailbreak import DefaultAttackJudge
    from radixway.semantics.guard.service import GuardService
    from radixway.semantics.guard.text_scanner import TextScanner
    from radixway.semantics.signals.question import RequestQuestion


def _effective_sections(config: Config) -> tuple[SemanticConfig | None, SemanticCacheConfig]:
    """Return the semantic section, if enabled, with its file, and the cache's effective section."""
    given = config.semantic
    if given is None or not given.is_on:
        return None, config.semantic_cache
    from radixway.core.config.semantic import merge_cache_section, merge_semantic_file

    section = merge_semantic_file(given)
    return section, merge_cache_section(config.semantic_cache, section)


def is_guarded(config: Config) -> bool:
    """Tell if requests are guarded: by `guard`, or by keys of a semantic router. Raises ConfigError."""
    if config.guard.enabled is not None or is_guard_ever_requested(config.guard) or config.semantic is None:
        return is_guard_ever_requested(config.guard)
    section, _ = _effective_sections(config)
    if section is None:
        return False
    from radixway.core.config.semantic import requests_guard

    return requests_guard(section)


async def _guard_findings(guard: GuardService, question: RequestQuestion) -> GuardFindings:
    """Implement `GuardHook`."""
    return await guard.findings(question.whole or question.text)


class SemanticsBuilder(Component):
    """The encoder, and the layers that read texts with it, in the order in which requests pass them."""

    name = "encoders"

    def __init__(
        self,
        config: Config,
        metrics: MetricsRegistry,
        states: ModelStates,
        tokenizer_of: TokenizerOf | None = None,
        recorder: IncidentRecorder | None = None,
    ) -> None:
        """Raises ConfigError: a file cannot be read, packages are missing, a policy is not there."""
        self._config = config
        self._metrics = metrics
        self._section, self._caching = _effective_sections(config)
        self.encoders = self._build_encoders()
        self.guard: GuardService | None = None
        self.guard = self._build_guard(states, tokenizer_of, recorder)
        self.cache = self._build_cache()
        self.semantic = self._build_semantic(states)

    def middlewares(self) -> Iterator[Middleware]:
        """Outermost first: one pass of the encoder for all, what blocks, the cache, the decision, tools."""
        if self.encoders is None or (self.semantic is None and self.cache is None and self.guard is None):
            return
        yield from self._middlewares_before_cache(self.encoders)
        if self.cache is not None:
            if self.guard is not None:
                yield self.guard.cached_answers
            yield self.cache.middleware
        if self.semantic is not None:
            yield self.semantic.middleware
        if self.guard is not None:
            yield self.guard.clearing
            yield self.guard.answers
        if self.semantic is not None:
            yield self.semantic.tools

    def session_middlewares(self) -> Iterator[Middleware]:
        """Return the middlewares of sessions' calls: the same without model choice and cache."""
        if self.encoders is None or (self.guard is None and self.semantic is None):
            return
        yield from self._middlewares_before_cache(self.encoders)
        if self.guard is not None:
            yield self.guard.clearing

    def worker_middlewares(self) -> Iterator[Middleware]:
        """Between a session and the worker that it asks."""
        if self.guard is not None:
            yield self.guard.cleared

    def check_endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        """Raise ConfigError if one of `endpoints` is guarded, and the guard cannot read or answer it."""
        if self.guard is not None:
            from radixway.semantics.guard.middleware import check_endpoint

            for endpoint in endpoints:
                check_endpoint(endpoint)

    def parts_guard(self, request: Request) -> GuardedParts | None:
        """Return the guard for the session's answer to `request`; None where it is not guarded."""
        return None if self.guard is None else self.guard.answers.parts_guard_for(request)

    def _middlewares_before_cache(self, encoders: EncoderService) -> Iterator[Middleware]:
        from radixway.semantics.encoders import EncodeOnceMiddleware

        layers = self.guard.layers if self.guard is not None and is_guarded(self._config) else ()
        yield EncodeOnceMiddleware(encoders, layers, wait_s=self._config.encoders.wait_s)
        if self.guard is not None:
            yield self.guard.outer
        if self.semantic is not None:
            yield self.semantic.detect
        if self.guard is not None:
            yield self.guard.judging

    def components(self) -> list[Component | None]:
        """Return what there is to start, in order; None in place of what is not configured."""
        return [self, self.guard, self.cache, self.semantic]

    async def start(self) -> None:
        """Begin to load the encoder, where it is not to wait for the first text."""
        if self.encoders is not None and self._config.encoders.preload:
            self.encoders.start()

    async def stop(self) -> None:
        """End the encoder's threads."""
        if self.encoders is not None:
            await self.encoders.aclose()

    def model_names(self) -> set[str]:
        """Return the model names that the semantic layer serves beside those of workers."""
        section = self.current_section()
        if section is None:
            return set()
        named = section.model_names() if section.include_config_models_in_list else ()
        return {"auto", section.auto_model_name, *named}

    def build_guards(self, encoders: EncoderService) -> tuple[PersonalDataFinder, DefaultAttackJudge]:
        """Return the finder of personal data and the judge of attacks: the guard's, or new on `encoders`."""
        if self.guard is not None:
            return self.guard.scan.finder, self.guard.scan.judge
        from radixway.semantics.guard.detector_factory import build_finder, build_judge

        return (
            build_finder(self._config, self._section, encoders),
            build_judge(self._config, self._section, encoders),
        )

    def build_scanner(self, encoders: EncoderService) -> TextScanner:
        """Return a scanner with the guard's classifiers, not its rules: the guard's, or new on `encoders`."""
        if self.guard is not None:
            return self.guard.scan
        from radixway.semantics.guard.guard_metrics import GuardMetrics
        from radixway.semantics.guard.text_scanner import TextScanner

        wait_s = self._config.encoders.wait_s
        return TextScanner(*self.build_guards(encoders), GuardMetrics(self._metrics), wait_s=wait_s)

    def is_auto(self, model: str) -> bool:
        """Tell if the name `model` leaves the choice to the gateway."""
        return model == ANY_MODEL if self.semantic is None else self.semantic.snapshots.current.is_auto(model)

    def current_section(self) -> SemanticConfig | None:
        """Return the semantic section as it is now; another object after each change."""
        return None if self.semantic is None else self.semantic.snapshots.current.section

    def default_model(self) -> str:
        """The configured model for what no rule decides; empty where there is none."""
        return "" if self.semantic is None else self.semantic.snapshots.current.default_model

    def has_prices(self) -> bool:
        """Return whether any model has a price in the semantic configuration."""
        section = self.current_section()
        return section is not None and any(model.pricing for model in section.models.values())

    def model_pricing(self, model: str) -> ModelPricing | None:
        """Return the price of `model` in the semantic configuration; None where it has none."""
        section = self.current_section()
        return section.models[model].pricing if section is not None and model in section.models else None

    def configured_workers(self) -> list[WorkerSettings]:
        """Return the endpoints of the semantic configuration as workers."""
        if self._section is None:
            return []
        return [
            WorkerSettings(url=endpoint.url, models=self._section.models_at(endpoint), pools=(endpoint.name,))
            for endpoint in self._section.vllm_endpoints
        ]

    def _build_encoders(self) -> EncoderService | None:
        wanted = self._section is not None or self._caching.enabled or bool(self._config.encoders.preload)
        if not wanted and not is_guard_ever_requested(self._config.guard):
            return None  # the classification API starts it when called
        try:
            from radixway.semantics.encoders import build_service
        except ImportError as error:
            raise ConfigError(
                f"semantic, semantic_cache, guard and encoders.preload need radixway[semantic]: {error}"
            ) from None
        given: tuple[Path | None, Path | None] = (None, None)
        if self._section is not None:
            from radixway.core.config.semantic import local_model_paths

            category = self._section.classifier.category_model
            given = local_model_paths(category.model_id, category.category_mapping_path)
        return build_service(self._config.encoders, *given)

    def _build_guard(
        self, states: ModelStates, tokenizer_of: TokenizerOf | None, recorder: IncidentRecorder | None
    ) -> GuardService | None:
        """Build the guard; also for rules that ask for its findings, and for a file that may switch it on."""
        config, section = self._config, self._section
        named = {name: tenant.guard for name, tenant in config.tenants.named.items()}
        check_policies(config.guard, named)
        if self.encoders is None or not self._needs_guard():
            return None
        from radixway.semantics.guard.service import GuardService

        def current() -> SemanticConfig | None:
            return section if self.semantic is None else self.semantic.snapshots.current.section

        guards = self.build_guards(self.encoders)
        rehearses = is_guarded(config) and config.encoders.preload is not False
        return GuardService(
            config, current, *guards, self._metrics, states, tokenizer_of, recorder, rehearses=rehearses
        )

    def _needs_guard(self) -> bool:
        if self._config.guard.enabled is False:
            return False
        if is_guard_ever_requested(self._config.guard) or self._section is None:
            return is_guard_ever_requested(self._config.guard)
        from radixway.core.config.semantic import has_guard_conditions, requests_guard

        section = self._section
        return (
            requests_guard(section)
            or has_guard_conditions(section)
            or (section.config is not None and section.watch)
        )

    def _build_cache(self) -> CacheRoom | None:
        if not self._caching.enabled or self.encoders is None:
            return None
        from radixway.semantics.cache import build_semantic_cache, embedder_for, verifier_for

        encoders = self.encoders
        embed, verify = embedder_for(encoders), verifier_for(encoders)
        cache = build_semantic_cache(self._caching, embed, self._metrics, verify)
        cache.encoder_id = self._encoder_id
        return cache

    def _build_semantic(self, states: ModelStates) -> SemanticService | None:
        if self._section is None or self._config.semantic is None or self.encoders is None:
            return None
        from radixway.core.config.semantic import is_cached_by_default
        from radixway.semantics.decisions.cache_rules import CacheDefault
        from radixway.semantics.decisions.service import build_semantic_service

        caching = None
        if self.cache is not None:
            enabled = is_cached_by_default(self._config.semantic_cache, self._section)
            caching = CacheDefault(enabled, bool(self._caching.category_thresholds))
        home = (self._config.encoders.home or radixway_home() / "encoders").expanduser()
        return build_semantic_service(
            self._config.semantic,
            states,
            self.encoders,
            cache=caching,
            guard=None if self.guard is None else partial(_guard_findings, self.guard),
            home=home,
            metrics=self._metrics,
        )

    async def _encoder_id(self) -> str:
        """Return the name of the encoder of cached vectors, None for literal repeats alone."""
        from radixway.semantics.encoders import EncoderError

        assert self.encoders is not None
        try:
            return (await self.encoders.wait_until_ready()).id
        except EncoderError:
            return "none"
