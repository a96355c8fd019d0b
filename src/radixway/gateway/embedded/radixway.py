"""`Radixway`, the gateway in a Python process: opened for one event loop, or for any thread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radixway.core.config import Config
    from radixway.gateway.embedded.async_client import AsyncRadixway
    from radixway.gateway.embedded.runtime import EmbeddedRuntime
    from radixway.gateway.embedded.sync_client import SyncRadixway

_BELOW: dict[str, Any] = {"chat": {"enabled": False}}
"""Different defaults: chats are a service with pages and accounts, and must be configured."""


class Radixway:
    """A gateway in this process, to be opened once::

        async with Radixway("radixway.yaml") as radixway:  # within an event loop
            answer = await radixway.chat("What is a radix tree?")

        with Radixway(workers=[{"url": "http://gpu1:8000"}]) as radixway:  # anywhere
            answer = radixway.chat("What is a radix tree?")

    The second way has an event loop in a thread of its own, so it works where another loop runs.
    """

    def __init__(
        self,
        config: Config | str | Path | None = None,
        *,
        key: str | None = None,
        with_engine: bool | None = None,
        workers_within_s: float = 10.0,
        **sections: Any,
    ) -> None:
        """`config`: a file, or a configuration. `sections`: as in that file, above it and the environment.

        Args:
            key: a tenant's, sent with every call; needed where the configuration has keys.
            with_engine: start the embedded engine in a process of its own, which ends with this one. By
                default where the configuration names no workers, nor where to find any.
            workers_within_s: how long opening waits to learn whether the workers answer; they are used as
                soon as they do.

        Raises:
            ConfigError: as `radixway config check` tells it.
            TypeError: sections beside a configuration that is complete.
            ValueError: a key that no client could send.
        """
        from radixway.core.config import Config, load_config
        from radixway.gateway.embedded.messages import RadixwayError, merge_headers

        if isinstance(config, Config):
            if sections:
                raise TypeError("sections go into the Config that is given, not beside it")
            self.config = config
        else:
            path = None if config is None else Path(config).expanduser()
            self.config = load_config(path, sections, base=_BELOW)
        if with_engine is None:
            with_engine = not _discovers_workers(self.config)
        self.starts_engine = with_engine
        self._workers_within_s = workers_within_s
        self._runtime: EmbeddedRuntime | None = None
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}
        try:
            merge_headers(self._headers)
        except RadixwayError:
            raise ValueError("key: a key is text of one line, in Latin letters") from None
        self._closed = False
        self._inner: AsyncRadixway | None = None
        self._sync: SyncRadixway | None = None

    async def open(self) -> AsyncRadixway:
        """Return a client for this event loop; `close` ends it, from any of the loop's tasks.

        Raises:
            ConfigError: the configuration names something that does not exist.
            EngineFailed: the engine could not start.
            EngineKilled: it was ended from outside before it was ready.
        """
        self._require_closed()
        from radixway.gateway.embedded.async_client import AsyncRadixway
        from radixway.gateway.embedded.runtime import EmbeddedRuntime

        self._runtime = EmbeddedRuntime(
            self.config, with_engine=self.starts_engine, workers_within_s=self._workers_within_s
        )
        self._inner = AsyncRadixway(await self._runtime.start_gateway(), self._headers)
        return self._inner

    async def close(self) -> None:
        """End calls under way with an error, and release everything."""
        self._closed = True
        if self._inner is not None:
            await self._inner.close()
        if self._runtime is not None:
            await self._runtime.stop_gateway()

    def open_sync(self) -> SyncRadixway:
        """Return a client for calls from any thread; close it by its `close`. Raises as `open`."""
        self._require_closed()
        from radixway.gateway.embedded.sync_client import LoopThread, SyncRadixway

        thread = LoopThread()
        try:
            inner = thread.run_coroutine(self.open())
        except BaseException:
            thread.run_coroutine(self._wait_stopped())
            thread.stop_thread()
            raise
        self._sync = SyncRadixway(inner, thread, self.close)
        return self._sync

    async def __aenter__(self) -> AsyncRadixway:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> SyncRadixway:
        return self.open_sync()

    def __exit__(self, *_: object) -> None:
        if self._sync is not None:
            self._sync.close()

    def _require_closed(self) -> None:
        if self._runtime is not None or self._closed:
            raise RuntimeError("a Radixway is opened once, and not after it was closed; make another")

    async def _wait_stopped(self) -> None:
        """Wait until a gateway that failed to open, or was interrupted opening, has released everything."""
        if self._runtime is not None:
            await self._runtime.wait_stopped()


def _discovers_workers(config: Config) -> bool:
    found = config.discovery
    return bool(config.workers or config.semantic is not None or found.dns or found.kubernetes)
