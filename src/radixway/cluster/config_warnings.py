"""Warnings at start about state that several gateways do not share as configured."""

import logging
from collections.abc import Iterator

from radixway.core.config import Config, QuotasConfig, RatesConfig

log = logging.getLogger(__name__)


def warn_unshared_state(config: Config, *, records: bool, processes: int = 1) -> list[str]:
    """A sentence for each kind of state that stays in this gateway, though `scale` says there are several.

    `records`: whether trajectories are recorded. `processes`: of this gateway.
    """
    scale = config.scale
    several = (scale.sync, scale.limits, scale.gateways) != (None, None, None)
    sentences = list(_unshared_state(config, records=records)) if several else []
    for sentence in sentences:
        log.warning("several gateways: %s", sentence)
    within = list(_unshared_by_processes(config, records=records)) if processes > 1 else []
    for sentence in within:
        log.warning("several processes: %s", sentence)
    return sentences + within


def _unshared_state(config: Config, *, records: bool) -> Iterator[str]:
    scale, cache, tenants = config.scale, config.semantic_cache, config.tenants
    if scale.sync is None:
        yield "each gateway goes by its own load alone: set scale.sync"
    if scale.gateways is None and (records or config.trajectories.sessions.path is not None):
        yield "conversations are recorded by the gateway that they come to: set scale.gateways"
    unlimited = (RatesConfig(), QuotasConfig())
    if scale.limits is None and any(
        (each.rates, each.quotas) != unlimited for each in tenants.named.values()
    ):
        yield "each gateway lets in as much as a tenant may use in all: set scale.limits"
    if tenants.usage.persist:
        yield "/usage tells of one gateway's requests: tenants.usage.path is its own"
    if cache.enabled and cache.backend == "memory":
        yield "each gateway keeps its own answers: set semantic_cache.backend to valkey or milvus"
    database = config.chat.database
    in_file = database is None or database.get_secret_value().startswith("sqlite")
    if in_file and config.chat.enabled:
        yield "chats are in a file of this machine: set chat.database to a PostgreSQL that all reach"


def _unshared_by_processes(config: Config, *, records: bool) -> Iterator[str]:
    if config.semantic_cache.enabled and config.semantic_cache.backend == "memory":
        yield "each process keeps its own answers: set semantic_cache.backend to valkey or milvus"
    if records:
        yield "conversations that name no session are recorded by the process that they come to"
