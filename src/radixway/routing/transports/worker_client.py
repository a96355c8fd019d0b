"""Small calls to single workers by name: abort a request, tokenize a prompt, decode tokens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from radixway.core.pipeline import WorkerFailedError
from radixway.routing import TokenizerRegistry, Worker, WorkerRegistry
from radixway.routing.prompt_tokens import TokenizeCall, TokenizeRefusedError, TokenizeTimeoutError
from radixway.routing.transports.http_transport import HttpTransport
from radixway.routing.transports.worker_responses import CALL_ERRORS

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer


class _TokenizeReply(msgspec.Struct):
    tokens: list[int]
    count: int


_read_answer = msgspec.json.Decoder(_TokenizeReply).decode


def make_tokenize_call(transport: HttpTransport, timeout_s: float) -> TokenizeCall:
    """Return a `TokenizeCall` over `transport`, each answered within `timeout_s`."""
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    headers = {"content-type": "application/json"}

    async def ask_for_tokens(worker: Worker, question: bytes) -> Sequence[int]:
        try:
            status, _, body = await transport.exchange(
                worker, "POST", "/tokenize", question, headers=headers, limits=timeout, is_rare=False
            )
        except CALL_ERRORS as error:
            raise TokenizeTimeoutError from error
        try:
            answer = _read_answer(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TokenizeRefusedError from error
        if status != 200 or not answer.tokens or len(answer.tokens) != answer.count:
            raise TokenizeRefusedError
        return answer.tokens

    return ask_for_tokens


log = logging.getLogger(__name__)

_ABORT_S = 2.0
_MAX_CONCURRENT_ABORTS = 256
"""Concurrent abort calls; further aborts rely on the closed connection."""
_ASK_S = 5.0
_NO_SUCH_PATH = (404, 405)

_encode = msgspec.json.encode


class _TokensReply(msgspec.Struct):
    tokens: list[int]


class _TextReply(msgspec.Struct):
    text: str | None = None
    prompt: str | None = None


_read_tokens = msgspec.json.Decoder(_TokensReply).decode
_read_text = msgspec.json.Decoder(_TextReply).decode


class WorkerClient:
    """Calls single workers by name; none of the calls raises. `close` it at the end."""

    def __init__(
        self, registry: WorkerRegistry, transport: HttpTransport, tokenizers: TokenizerRegistry
    ) -> None:
        self._registry = registry
        self._transport = transport
        self._tokenizers = tokenizers
        self._cannot_abort: set[Worker] = set()
        self._aborts: set[asyncio.Task[None]] = set()
        registry.on_remove.append(self._cannot_abort.discard)

    def abort(self, worker: str, rid: str) -> None:
        """Send an abort of the request to a worker in the background, if the worker supports it."""
        found = self._worker_named(worker)
        if found is None or found in self._cannot_abort or len(self._aborts) >= _MAX_CONCURRENT_ABORTS:
            return
        task = asyncio.get_running_loop().create_task(self._send_abort(found, rid))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    def model_of(self, worker: str) -> str | None:
        """The model that it takes where a request names none; None if that is not known."""
        found = self._worker_named(worker)
        return found.models[0] if found is not None and found.models else None

    async def tokenize(self, worker: str, model: str | None, text: str) -> Sequence[int] | None:
        """Return a prompt's tokens, by a loaded tokenizer or a worker's `/tokenize`; None if by neither."""
        tokenizer = self._loaded_tokenizer(worker, model)
        if tokenizer is not None:
            try:
                return await asyncio.to_thread(tokenizer.encode, text)
            except ValueError:
                return None
        question: dict[str, Any] = {"prompt": text} | ({"model": model} if model else {})
        for candidate in self._askable_workers(worker, model):
            try:
                return _read_tokens(await self._post_json(candidate, "/tokenize", question)).tokens
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        return None

    async def detokenize(
        self, worker: str, model: str | None, ids: Sequence[int], *, skip_special_tokens: bool
    ) -> str | None:
        """The text of tokens, by a tokenizer at hand or by a worker's `/detokenize`; None if by neither."""
        tokenizer = self._loaded_tokenizer(worker, model)
        if tokenizer is not None:
            try:
                return tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
            except ValueError:
                return None
        question = {"tokens": ids, "skip_special_tokens": skip_special_tokens}
        question |= {"model": model} if model else {}
        for candidate in self._askable_workers(worker, model):
            raw = await self._post_json(candidate, "/detokenize", question)
            try:
                answer = _read_text(raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            return answer.prompt if answer.text is None else answer.text
        return None

    async def close(self) -> None:
        """Drop what is under way."""
        for task in tuple(self._aborts):
            task.cancel()
        await asyncio.gather(*self._aborts, return_exceptions=True)

    async def _send_abort(self, worker: Worker, rid: str) -> None:
        try:
            status, _, _ = await self._transport.call_worker(
                worker, "POST", "/abort_request", _encode({"rid": rid}), timeout_s=_ABORT_S
            )
        except (WorkerFailedError, TimeoutError) as error:
            log.debug("an abort did not reach worker %s: %s", worker.name, error)
            return
        if status in _NO_SUCH_PATH:
            self._cannot_abort.add(worker)

    async def _post_json(self, worker: Worker, path: str, question: dict[str, Any]) -> bytes:
        """Return a worker's answer; empty if it gives none."""
        try:
            status, _, raw = await self._transport.call_worker(
                worker, "POST", path, _encode(question), timeout_s=_ASK_S
            )
        except (WorkerFailedError, TimeoutError):
            return b""
        return raw if status == 200 else b""

    def _askable_workers(self, worker: str, model: str | None) -> Iterator[Worker]:
        """Yield the worker of that name, then another one of the model."""
        found = self._worker_named(worker)
        if found is not None:
            yield found
        for other in self._registry.candidates(model or self.model_of(worker)):
            if other is not found:
                yield other
                return

    def _loaded_tokenizer(self, worker: str, model: str | None) -> Tokenizer | None:
        found = self._worker_named(worker)
        candidates = [found] if found is not None else self._registry.candidates(model)
        known = self._tokenizers.find_tokenizer(model, candidates)
        return known.tokenizer if known is not None else None

    def _worker_named(self, name: str) -> Worker | None:
        return next((worker for worker in self._registry if worker.name == name), None)
