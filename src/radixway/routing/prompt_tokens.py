"""Prompts as token ids: made here where a tokenizer is loaded, else by a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import msgspec
from xxhash import xxh3_128_digest

from radixway.routing.block_hash import pack_tokens
from radixway.routing.prompt_bodies import PromptBody
from radixway.routing.tokenizer_registry import PromptTokenizer, TokenCache
from radixway.routing.worker import Worker

if TYPE_CHECKING:
    from radixway.core.tokenizer import PartialEncoding

T = TypeVar("T")

_SHORT_TEXT = 2_048
"""Characters tokenized on the loop: about a millisecond. A thread costs 45 µs of CPU."""
_SHORT_BODY = 2**16
"""Bytes rendered on the loop: about a millisecond, at some 12 µs a KB."""
_MAX_BODY_BYTES = 2**21
"""A longer body is not worth the second of CPU that its tokens take."""
_MAX_WAITING_PROMPTS = 64
"""Prompts that wait for threads; beyond, text tells prompts apart faster."""


class TokenizationError(Exception):
    """This prompt's tokens are not to be had; `reason` says why in a word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LocalTokenEncoder:
    """Tokenizes for one event loop, and remembers."""

    def __init__(self, cache: TokenCache, threads: int) -> None:
        self._cache = cache
        self._threads = ThreadPoolExecutor(threads, "radixway-tokens")
        self.waiting = 0

    def encode_prompt(
        self, body: PromptBody, size: int, tokenizer: PromptTokenizer
    ) -> bytes | Awaitable[bytes]:
        """The ids of the prompt in a body of `size` bytes (little-endian uint32), or a wait for them.

        Either raises TokenizationError.
        """
        key = body.prompt_digest() + id(tokenizer).to_bytes(8, "little") if tokenizer.timeless else b""
        if key and (packed := self._cache.get(key)) is not None:
            return packed
        if size > _MAX_BODY_BYTES:
            raise TokenizationError("too_long")
        if size > _SHORT_BODY:
            return self._render_and_encode(key, body, tokenizer)
        unfinished = _as_tokenization_error(lambda: tokenizer.start_encoding(body))
        if unfinished.characters > _SHORT_TEXT:
            return self._encode(key, unfinished, tokenizer)
        encoded = _as_tokenization_error(lambda: tokenizer.encoder.encode_missing(unfinished))
        return self._cache_tokens(key, tokenizer.encoder.assemble_ids(unfinished, encoded))

    def shutdown_threads(self) -> None:
        """Let go of the threads; what has not begun is not done."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _render_and_encode(self, key: bytes, body: PromptBody, tokenizer: PromptTokenizer) -> bytes:
        text, special = await self._run_in_thread(lambda: body.render_prompt(tokenizer.tokenizer))
        unfinished = _as_tokenization_error(
            lambda: tokenizer.encoder.lookup_pieces(text, add_special_tokens=special)
        )
        return await self._encode(key, unfinished, tokenizer)

    async def _encode(self, key: bytes, unfinished: PartialEncoding, tokenizer: PromptTokenizer) -> bytes:
        encoder = tokenizer.encoder
        encoded = await self._run_in_thread(lambda: encoder.encode_missing(unfinished))
        return self._cache_tokens(key, encoder.assemble_ids(unfinished, encoded))

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; not at all if cancelled before a thread is free."""
        if self.waiting >= _MAX_WAITING_PROMPTS:
            raise TokenizationError("busy")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, _as_tokenization_error, work
            )
        finally:
            self.waiting -= 1

    def _cache_tokens(self, key: bytes, packed: bytes) -> bytes:
        if key:
            self._cache[key] = packed
        return packed


def _as_tokenization_error(work: Callable[[], T]) -> T:
    """Turn errors of `work` to tokenization errors: bodies and templates need not make sense."""
    try:
        return work()
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise TokenizationError("refused") from error


_MAX_CONCURRENT_CALLS = 16
"""Concurrent calls; one that must wait is not worth it."""
_SILENCE_S = 10.0
"""Pause for an endpoint after a timeout of a worker."""
_REFUSAL_S = 5.0
"""Pause after a refusal: SGLang's takes texts only, but the client may be at fault, too."""


class TokenizeRefusedError(Exception):
    """The worker answered, but with no tokens: not to a body of this kind."""


class TokenizeTimeoutError(Exception):
    """The worker did not answer, or not in time."""


TokenizeCall = Callable[[Worker, bytes], Awaitable[Sequence[int]]]
"""Asks a worker for a body's tokens, within a time. Raises TokenizeRefusedError, TokenizeTimeoutError."""


class WorkerTokenizer:
    """Requests tokens from workers and caches their answers."""

    def __init__(self, ask: TokenizeCall, cache: TokenCache, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._cache = cache
        self._clock = clock
        self._num_calls = 0
        self._not_before: dict[tuple[Worker, str], float] = {}

    def remove_worker(self, worker: Worker) -> None:
        """The worker is gone."""
        self._not_before = {pair: at for pair, at in self._not_before.items() if pair[0] is not worker}

    def request_tokens(
        self, endpoint: str, question: bytes, candidates: Sequence[Worker]
    ) -> bytes | Awaitable[bytes] | None:
        """The tokens as little-endian uint32, or a wait for them; None where no worker can be asked.

        The wait raises TokenizationError.
        """
        now, not_before = self._clock(), self._not_before
        askable = [
            worker
            for worker in candidates
            if worker.info.tokenizes and not_before.get((worker, endpoint), now) <= now
        ]
        if not askable or self._num_calls >= _MAX_CONCURRENT_CALLS:
            return None
        key = xxh3_128_digest(question) + b"worker"
        packed = self._cache.get(key)
        if packed is not None:
            return packed
        worker = min(askable, key=lambda worker: worker.load.requests)
        return self._request_tokens(worker, endpoint, question, key)

    async def _request_tokens(self, worker: Worker, endpoint: str, question: bytes, key: bytes) -> bytes:
        self._num_calls += 1
        try:
            packed = pack_tokens(await self._ask(worker, question))
        except TokenizeTimeoutError:
            self._not_before[worker, endpoint] = self._clock() + _SILENCE_S
            raise TokenizationError("worker_silent") from None
        except (TokenizeRefusedError, OverflowError, TypeError):
            self._not_before[worker, endpoint] = self._clock() + _REFUSAL_S
            raise TokenizationError("worker_refused") from None
        finally:
            self._num_calls -= 1
        self._cache[key] = packed
        return packed
