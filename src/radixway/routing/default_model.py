"""The model that requests mean by the name `default`, as SGLang's clients call a server's only one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from radixway.pipeline import TenantPolicy
from radixway.routing.registry import WorkerRegistry

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
