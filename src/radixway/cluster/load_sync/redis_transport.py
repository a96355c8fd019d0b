"""Gateway to gateway over the publish/subscribe of a Redis or Valkey server."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from radixway.cluster.load_sync.transport import OnMessage
from radixway.core.config import ConfigError
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.net.valkey import ERRORS, connect_valkey

log = logging.getLogger(__name__)

_UNSENT_MESSAGES = 256
"""Messages queued while the server is unreachable or slow; the next full message replaces lost ones."""
_PAUSES_S = (0.1, 5.0)
"""First and longest pause before a server that is away is tried again; it doubles."""
_CLOSE_S = 0.5


class RedisTransport:
    """Publishes and listens, each in a task that reconnects by itself."""

    name = "redis"

    def __init__(self, url: str, channel: str, silence_s: float) -> None:
        """`silence_s`: hearing nothing for so long, our own messages included, is a broken connection."""
        self._url = url
        self._channel = channel
        self._silence_s = silence_s
        self._unsent: deque[bytes] = deque(maxlen=_UNSENT_MESSAGES)
        self._wake = asyncio.Event()
        self._closing = False
        self._publishing: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._problems: dict[str, str] = {}

    @property
    def problem(self) -> str | None:
        return next(iter(self._problems.values()), None)

    async def start_receiving(self, hear: OnMessage) -> None:
        try:
            await connect_valkey(self._url, answer_s=self._silence_s).aclose()
        except ValueError as error:
            raise ConfigError(f"scale.sync.redis: {error}") from None
        loop = asyncio.get_running_loop()
        self._publishing = loop.create_task(self._keep_running("publishing", self._publish_loop))
        self._listening = loop.create_task(self._keep_running("listening", lambda: self._listen_loop(hear)))

    def broadcast(self, message: bytes) -> None:
        self._unsent.append(message)
        self._wake.set()

    async def close_transport(self) -> None:
        self._closing = True
        self._wake.set()
        tasks = [task for task in (self._publishing, self._listening) if task is not None]
        if self._publishing is not None and not self._problems:
            await asyncio.wait([self._publishing], timeout=_CLOSE_S)
        await cancel_tasks(tasks)

    async def _keep_running(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` again whenever the server breaks it off."""
        pause_s = _PAUSES_S[0]
        while True:
            try:
                await work()
                return
            except ERRORS as error:
                if what not in self._problems:
                    log.warning("load sync: %s over redis: %s", what, error)
                    pause_s = _PAUSES_S[0]
                self._problems[what] = f"{what}: {error or type(error).__name__}"
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSES_S[1])

    async def _publish_loop(self) -> None:
        async with connect_valkey(self._url, answer_s=self._silence_s) as redis:
            await redis.ping()
            self._problems.pop("publishing", None)
            while not self._closing or self._unsent:
                await self._wake.wait()
                self._wake.clear()
                while self._unsent:
                    await redis.publish(self._channel, self._unsent.popleft())

    async def _listen_loop(self, hear: OnMessage) -> None:
        async with connect_valkey(self._url, answer_s=self._silence_s) as redis, redis.pubsub() as pubsub:
            await pubsub.subscribe(self._channel)
            while True:
                async with asyncio.timeout(self._silence_s):
                    message = await pubsub.get_message(timeout=None)
                self._problems.pop("listening", None)
                if message is not None and message["type"] == "message":
                    hear(message["data"])
