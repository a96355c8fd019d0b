"""Prompts as token ids: made here where a tokenizer is at hand, in a thread when that takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import msgspec

from radixway.routing.prompt_bodies import PromptBody
from radixway.routing.token_cache import TokenCache
from radixway.routing.tokenizers import PromptTokenizer

if TYPE_CHECKING:
    from radixway.tokenizer import PartialEncoding

T = TypeVar("T")

_SHORT_TEXT = 2_048
"""Characters that are tokenized at once: about a millisecond. A thread's detour costs 45 µs of CPU."""
_SHORT_BODY = 2**16
"""Bytes that are rendered at once: also about a millisecond, at some 12 µs a KB."""
_MAX_BODY_BYTES = 2**21
"""Bytes; a longer one is not worth the second of a core that its tokens take."""
_MAX_WAITING_PROMPTS = 64
"""Prompts for which threads are asked; where so many wait, the next ones are faster told apart by text."""


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
        """Prompts that threads work on or are to."""

    def encode_prompt(
        self, body: PromptBody, size: int, tokenizer: PromptTokenizer
    ) -> bytes | Awaitable[bytes]:
        """The ids of the prompt in a body of `size` bytes (little-endian uint32), or a wait for them.

        Either raises CannotTokenize.
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
        text, special = await self._run_in_thread(lambda: tokenizer.render_prompt(body))
        unfinished = _as_tokenization_error(
            lambda: tokenizer.encoder.lookup_pieces(text, add_special_tokens=special)
        )
        return await self._encode(key, unfinished, tokenizer)

    async def _encode(self, key: bytes, unfinished: PartialEncoding, tokenizer: PromptTokenizer) -> bytes:
        encoder = tokenizer.encoder
        encoded = await self._run_in_thread(lambda: encoder.encode_missing(unfinished))
        return self._cache_tokens(key, encoder.assemble_ids(unfinished, encoded))

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Do `work` while others are served; never, if cancelled before a thread has time for it."""
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
    """Bodies are clients' and templates are models': neither need make sense."""
    try:
        return work()
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise TokenizationError("refused") from error
