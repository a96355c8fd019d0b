"""From a request's body to what the selector needs: the prompt's blocks, its length, its session, its text.

Only what the model's policy reads is looked for. A prompt's tokens are had, in this order, from

    ids         the request brings them
    tokenizer   the model's, given by the operator or lying where the worker says
    worker      its `/tokenize`, within a time limit
    text        else blocks are cut from the JSON text of tools and messages, of which two requests share as
                much as they share a beginning, if their clients write JSON alike
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from radixway.core.config import RoutingConfig
from radixway.core.config.routing import SessionConfig
from radixway.core.pipeline import ANY_MODEL, Request
from radixway.routing.block_hash import hash_text_blocks, hash_token_blocks, namespace_seed
from radixway.routing.policies.base import Policy
from radixway.routing.prompt_bodies import PromptBody, TextsBody, parse_prompt_body
from radixway.routing.prompt_tokens import LocalTokenEncoder, TokenizationError, TokenizeCall, WorkerTokenizer
from radixway.routing.routing_request import RoutingRequest, TokenSource
from radixway.routing.tokenizer_registry import TokenizerRegistry
from radixway.routing.worker import KvEventsState, Worker

_TEXT_BYTES_PER_TOKEN = 4
"""English text with most tokenizers; used for estimates only."""
_LARGE_BODY_BYTES = 2**20
_MAX_BLOCKS = 2**13
"""Blocks that are hashed; the rest of a longer prompt counts as uncached."""

_SENSELESS = (ValueError, msgspec.MsgspecError, RecursionError)
_TOKEN_BYTES = 4


class PromptNeeds(NamedTuple):
    """The parts of a prompt that are read, where not a policy alone says so."""

    reads_blocks: bool
    reads_text: bool
    reads_session: bool


class PromptReader:
    """Makes a `RoutingRequest` of a `Request`."""

    def __init__(
        self,
        config: RoutingConfig,
        tokenizers: TokenizerRegistry,
        ask: TokenizeCall | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_fallback: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`ask` calls a worker; `on_fallback` gets the reason why a prompt was read as text, not tokens."""
        self._config = config
        self._tokenizers = tokenizers
        self._tokens = LocalTokenEncoder(tokenizers.cache, config.tokenize.threads)
        self._workers = None
        if ask is not None and config.tokenize.ask_workers != "never":
            self._workers = WorkerTokenizer(ask, tokenizers.cache, clock)
        self._on_fallback = on_fallback

    def remove_worker(self, worker: Worker) -> None:
        """Forget `worker`, which has left the fleet."""
        if self._workers is not None:
            self._workers.remove_worker(worker)

    def shutdown_threads(self) -> None:
        """Stop the tokenizer threads."""
        self._tokens.shutdown_threads()

    def read_prompt(
        self,
        request: Request,
        policy: Policy | PromptNeeds,
        candidates: Sequence[Worker],
        *,
        alone: bool = False,
        tokens_matter: bool = False,
    ) -> RoutingRequest | Awaitable[RoutingRequest]:
        """Read what `policy` needs of `request`; returns an awaitable where tokenizing takes time.

        `alone`: there is nothing to choose, so the prompt is not read. `tokens_matter`: a worker may be asked
        for them though no worker's KV events are followed. A malformed body tells little: workers refuse it.
        """
        found = RoutingRequest(model=request.model, stream=request.stream)
        if policy.reads_session:
            found.session = find_session(request, self._config.session)
        if not (policy.reads_blocks or policy.reads_text):
            return found
        if alone:
            found.tokens = len(request.raw) // _TEXT_BYTES_PER_TOKEN
            found.source = "size"
            return found
        if len(request.raw) >= _LARGE_BODY_BYTES:
            return self._read_large(found, request, policy, candidates, tokens_matter)
        body = parse_prompt_body(request.endpoint, request.raw)
        return self._read_body(found, body, request, policy, candidates, tokens_matter)

    async def _read_large(
        self,
        found: RoutingRequest,
        request: Request,
        policy: Policy | PromptNeeds,
        candidates: Sequence[Worker],
        tokens_matter: bool,
    ) -> RoutingRequest:
        """Read a body of megabytes: finding its fields and hashing its text are a turn of the loop each."""
        await asyncio.sleep(0)
        body = parse_prompt_body(request.endpoint, request.raw)
        await asyncio.sleep(0)
        reading = self._read_body(found, body, request, policy, candidates, tokens_matter)
        return reading if isinstance(reading, RoutingRequest) else await reading

    def _read_body(
        self,
        found: RoutingRequest,
        body: PromptBody | TextsBody | None,
        request: Request,
        policy: Policy | PromptNeeds,
        candidates: Sequence[Worker],
        tokens_matter: bool,
    ) -> RoutingRequest | Awaitable[RoutingRequest]:
        if body is None:
            return found
        try:
            if policy.reads_text:
                found.text = body.prompt_text()
            if policy.reads_blocks:
                return self._read_blocks(found, body, request, candidates, tokens_matter)
            return found
        except _SENSELESS:
            return found

    def _read_blocks(
        self,
        found: RoutingRequest,
        body: PromptBody | TextsBody,
        request: Request,
        candidates: Sequence[Worker],
        tokens_matter: bool,
    ) -> RoutingRequest | Awaitable[RoutingRequest]:
        seed = namespace_seed(_adapter_of(request.model, candidates), body.namespace_salt())
        if isinstance(body, TextsBody):
            return self._from_text(found, body, seed)
        if (ids := body.token_ids()) is not None:
            self._from_tokens(found, ids.packed, seed, "ids")
            found.tokens = ids.total
            return found
        packed: bytes | Awaitable[bytes] | None = None
        source: TokenSource = "tokenizer"
        model = None if request.model == ANY_MODEL else request.model
        tokenizer = self._tokenizers.find_tokenizer(model, candidates)
        if tokenizer is not None:
            try:
                packed = self._tokens.encode_prompt(body, len(request.raw), tokenizer)
            except TokenizationError as error:
                return self._from_text(found, body, seed, error)
        elif self._workers is not None and self._is_worth_asking(candidates, tokens_matter):
            source = "worker"
            packed = self._workers.request_tokens(
                request.endpoint.name, body.tokenize_payload(model), candidates
            )
        if packed is None:
            return self._from_text(found, body, seed)
        if isinstance(packed, bytes):
            return self._from_tokens(found, packed, seed, source)
        return self._await_tokens(found, body, seed, packed, source)

    def _is_worth_asking(self, candidates: Sequence[Worker], tokens_matter: bool) -> bool:
        """Return whether tokens are worth a call: a worker can be asked, and KV events speak of tokens."""
        for worker in candidates:
            if worker.info.tokenizes:
                break
        else:
            return False
        if tokens_matter or self._config.tokenize.ask_workers == "always":
            return True
        return any(worker.kv_events.state is KvEventsState.FOLLOWING for worker in candidates)

    async def _await_tokens(
        self,
        found: RoutingRequest,
        body: PromptBody,
        seed: int,
        packed: Awaitable[bytes],
        source: TokenSource,
    ) -> RoutingRequest:
        try:
            return self._from_tokens(found, await packed, seed, source)
        except TokenizationError as error:
            return self._from_text(found, body, seed, error)

    def _from_tokens(
        self, found: RoutingRequest, packed: bytes, seed: int, source: TokenSource
    ) -> RoutingRequest:
        size = self._config.block_size
        found.tokens = len(packed) // _TOKEN_BYTES
        found.block_tokens = size
        found.blocks = hash_token_blocks(packed[: _MAX_BLOCKS * size * _TOKEN_BYTES], size, seed)
        found.tokenized = True
        found.source = source
        return found

    def _from_text(
        self,
        found: RoutingRequest,
        body: PromptBody | TextsBody,
        seed: int,
        failure: TokenizationError | None = None,
    ) -> RoutingRequest:
        if failure is not None:
            found.fallback = failure.reason
            self._on_fallback(failure.reason)
        size = self._config.text_block_bytes
        text, length = body.prompt_json(_MAX_BLOCKS * size)
        found.tokens = -(-length // _TEXT_BYTES_PER_TOKEN)
        found.block_tokens = size // _TEXT_BYTES_PER_TOKEN
        found.blocks = hash_text_blocks(text[: _MAX_BLOCKS * size], size, seed)
        found.source = "text"
        return found


def find_session(request: Request, config: SessionConfig) -> str | None:
    """Return the mark that requests of one conversation share; None where `request` has none."""
    finders = (_find_session_header, _find_session_field)
    for find in reversed(finders) if config.fields_first else finders:
        if (session := find(request, config)) is not None:
            return session
    return None


def _find_session_header(request: Request, config: SessionConfig) -> str | None:
    given = {name.decode("latin-1"): value for name, value in request.headers}
    named = (given.get(header) for header in config.headers)
    return next((value.decode("latin-1") for value in named if value), None)


def _find_session_field(request: Request, config: SessionConfig) -> str | None:
    named = (request.body.get(field) for field in config.fields)
    return next((value for value in named if isinstance(value, str) and value), None)


def _adapter_of(model: str | None, candidates: Sequence[Worker]) -> str | None:
    for worker in candidates:
        if worker.info.adapters and model in worker.info.adapters:
            return model
    return None
