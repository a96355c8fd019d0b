"""Connections to a Valkey or Redis server."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

ERRORS: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
"""Errors of an unavailable or failing server."""
_CONNECT_S = 2.0
_ANSWER_S = 5.0


def connect_valkey(url: str, *, answer_s: float | None = _ANSWER_S, connect_s: float = _CONNECT_S) -> Redis:
    """Connect to a Redis or Valkey URL (ValueError: it is none). `answer_s`: per command; None: for ever."""
    return Redis.from_url(
        url.replace("valkey", "redis", 1) if url.startswith("valkey") else url,
        socket_connect_timeout=connect_s,
        socket_timeout=answer_s,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
    )
