"""Prompts as token ids, asked of a worker: where no tokenizer is at hand and the worker has `/tokenize`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from xxhash import xxh3_128_digest

from radixway.routing.block_hash import pack_tokens
from radixway.routing.prompt_tokens import TokenizationError
from radixway.routing.token_cache import TokenCache
from radixway.routing.worker import Worker

_MAX_CONCURRENT_CALLS = 16
"""Questions at a time: one that cannot be answered soon is not worth its wait."""
_SILENCE_S = 10.0
"""How long a worker that did not answer in time is not asked again for that endpoint."""
_REFUSAL_S = 5.0
"""And one that refused: SGLang's takes texts only, but it may as well have been the client's mistake."""


class TokenizeRefusedError(Exception):
    """The worker answered, but with no tokens: not to a body of this kind."""


class TokenizeTimeoutError(Exception):
    """The worker did not answer, or not in time."""


class TokenizeCall(Protocol):
    """How a worker is asked; transports implement it, time limit included."""

    async def __call__(self, worker: Worker, question: bytes) -> Sequence[int]:
        """The tokens. Raises TokenizeRefusedError, TokenizeTimeoutError."""
        ...


class WorkerTokenizer:
    """Asks workers for tokens and remembers what they said."""

    def __init__(self, ask: TokenizeCall, cache: TokenCache, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._cache = cache
        self._clock = clock
        self._asked = 0
        self._not_before: dict[tuple[Worker, str], float] = {}

    def remove_worker(self, worker: Worker) -> None:
        """The worker is gone."""
        self._not_before = {pair: at for pair, at in self._not_before.items() if pair[0] is not worker}

    def request_tokens(
        self, endpoint: str, question: bytes, candidates: Sequence[Worker]
    ) -> bytes | Awaitable[bytes] | None:
        """The tokens as little-endian uint32, or a wait for them; None where nobody can be asked.

        The wait raises CannotTokenize.
        """
        now, not_before = self._clock(), self._not_before
        askable = [
            worker
            for worker in candidates
            if worker.info.tokenizes and not_before.get((worker, endpoint), now) <= now
        ]
        if not askable or self._asked >= _MAX_CONCURRENT_CALLS:
            return None
        key = xxh3_128_digest(question) + b"worker"
        packed = self._cache.get(key)
        if packed is not None:
            return packed
        worker = min(askable, key=lambda worker: worker.load.requests)
        return self._request_tokens(worker, endpoint, question, key)

    async def _request_tokens(self, worker: Worker, endpoint: str, question: bytes, key: bytes) -> bytes:
        self._asked += 1
        try:
            packed = pack_tokens(await self._ask(worker, question))
        except TokenizeTimeoutError:
            self._not_before[worker, endpoint] = self._clock() + _SILENCE_S
            raise TokenizationError("worker_silent") from None
        except (TokenizeRefusedError, OverflowError, TypeError):
            self._not_before[worker, endpoint] = self._clock() + _REFUSAL_S
            raise TokenizationError("worker_refused") from None
        finally:
            self._asked -= 1
        self._cache[key] = packed
        return packed
