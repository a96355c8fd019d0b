"""Lookup of the tokens that a conversation's text was sampled as, for trainers: `/retrieve_from_text` …"""

import asyncio
from base64 import b64encode
from math import isfinite
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from msgspec import Meta

from radixway.api.client_requests import decode_body
from radixway.core.http import LazyRouter
from radixway.core.pipeline import BadRequest, GatewayError, TokenizerOf
from radixway.core.pipeline.endpoints import ModelName
from radixway.trajectories import RetrievedTokens, TokenRetrieval, TrieRegistry


class _RetrieveFields(msgspec.Struct, kw_only=True):
    strict: bool = False
    """Refuse what is not exact, rather than answer with a mask that means nothing."""
    session_id: str | None = None
    """The session whose record is meant, if there are several."""
    model: ModelName | None = None


class _RetrieveTextBody(_RetrieveFields, kw_only=True):
    text: Annotated[str, Meta(min_length=1)]


class _RetrieveMessagesBody(_RetrieveFields, kw_only=True):
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None


def trajectory_routes(tries: TrieRegistry | None, tokenizer_of: TokenizerOf) -> APIRouter:
    """The published calls; `tries` is None where nothing is recorded."""
    router = LazyRouter(tags=["trajectories"])

    @router.post("/retrieve_from_text")
    async def retrieve_from_text(request: Request) -> dict[str, Any]:
        """Tokens, loss mask and log-probabilities of a whole text, and how much of that is a record."""
        body = await decode_body(request, _RetrieveTextBody)
        return await answer(body, body.text)

    @router.post("/retrieve_from_messages_template")
    async def retrieve_from_messages_template(request: Request) -> dict[str, Any]:
        """Return the tokens of messages, as the model's chat template writes them."""
        body = await decode_body(request, _RetrieveMessagesBody)
        _, tokenizer = await tokenizer_of(body.model)
        if tokenizer is None:
            raise BadRequest(
                "there is no tokenizer for this model: set trajectories.tokenizer", param="model"
            )
        from radixway.core.tokenizer import TemplateError, render_chat

        try:
            text = await asyncio.to_thread(
                render_chat,
                tokenizer,
                body.messages,
                tools=body.tools,
                add_generation_prompt=body.add_generation_prompt,
                arguments=body.chat_template_kwargs,
            )
        except TemplateError as error:
            raise BadRequest(str(error), param=error.param) from None
        return await answer(body, text)

    async def answer(body: _RetrieveFields, text: str) -> dict[str, Any]:
        if tries is None:
            message = "nothing is recorded: start with --trajectories or trajectories.enabled"
            raise GatewayError(message, status=404, code="trajectories_off")
        trie = await tries.trie_for(body.model)
        found = trie.store.match_prefix(text, body.session_id, hidden=True)
        trie.count_lookup(found)
        try:
            retrieval = TokenRetrieval(trie.store, text, found, trie.encoder)
            retrieved = retrieval.join_tokens(await asyncio.to_thread(retrieval.encode_rest))
        except ValueError as error:
            raise _not_exact_error(str(error)) from None
        if body.strict and not retrieved.exact:
            raise _not_exact_error(_inexact_reason(retrieved))
        return _retrieved_object(text, retrieved)

    return router


def _not_exact_error(why: str) -> GatewayError:
    return GatewayError(why, status=409, code="not_exact", param="text")


def _inexact_reason(retrieved: RetrievedTokens) -> str:
    if retrieved.trajectory.ambiguous:
        return "this is another session's record, or one of several: give the session_id that is meant"
    if retrieved.coverage < 1:
        return f"of {len(retrieved.trajectory.ids)} tokens {retrieved.known} are known as they were sampled"
    return "a worker did not tell the log-probabilities of all tokens"


def _retrieved_object(text: str, retrieved: RetrievedTokens) -> dict[str, Any]:
    known = retrieved.trajectory
    spans: list[dict[str, Any]] = []
    start = 0
    for end, label in known.spans:
        origin = {"source": label.source, "loss_mask": label.mask, "version": label.version}
        spans.append({"start": start, "end": end, **origin})
        start = end
    reply = {
        "tokens": known.ids.tolist(),
        "response": text,
        "loss_mask": known.mask,
        "rollout_logp": [logprob if isfinite(logprob) else 0.0 for logprob in known.logprobs],
        "token_length": len(known.ids),
        "loss_mask_length": sum(known.mask),
        "versions": known.versions,
        "spans": spans,
        "exact": retrieved.exact,
        "coverage": retrieved.coverage,
        "ambiguous": known.ambiguous,
    }
    if known.experts:
        experts = [{"end": end, "data": b64encode(raw).decode()} for end, raw in known.experts]
        reply["routed_experts"] = experts
    return reply
