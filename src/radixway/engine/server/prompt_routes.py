"""Prompts without an answer: /tokenize and /detokenize, with vLLM's fields and SGLang's, and /prefetch.

A prefetch computes the KV of a prefix before the request comes that will begin with it.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec

from radixway.core.http import BadBodyError, HttpError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.chat_completions import ChatCompletionBody, render_chat_prompt
from radixway.engine.server.engine_service import EngineService, GenerationJob, split_prompts
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.sampling import field_names


class PrefetchBody(ChatCompletionBody, kw_only=True):
    """One of `text`, `input_ids` and `messages`; salt and priority as the request that follows has them."""

    text: str | None = None
    input_ids: list[int] | None = None
    extra_key: str | None = None


_PREFETCH_PARAMS = SamplingParams(max_tokens=0, temperature=0)


async def prefetch(service: EngineService, exchange: HttpExchange, body: PrefetchBody) -> None:
    """Reply once done, with the number of tokens that a request with this prefix will find in the cache."""
    service.check_model(body.model)
    if not service.config.radix_cache:
        raise BadBodyError("this engine has no radix cache, so it cannot prefetch", code="cache_disabled")
    given = [name for name in ("text", "input_ids", "messages") if getattr(body, name) is not None]
    if len(given) != 1:
        named = given[1] if given else "text"
        message = "give one of text, input_ids and messages"
        raise BadBodyError(message, param=named, code="invalid_value" if given else "missing_field")
    with field_names({"prompt": given[0], "max_tokens": given[0]}):
        ids = await _prefix_ids(service, body, given[0], exchange.body_bytes)
        body.bootstrap_room = None  # computed here, without another engine
        job = GenerationJob(ids, _PREFETCH_PARAMS, exchange.request_id)
        async with service.start_generations(exchange, [job], body, extra_key=body.extra_key) as answers:
            (answer,) = await answers.gather_outputs()
    if answer.finish is not None and answer.finish.type == "abort":
        raise HttpError(f"not prefetched: {answer.finish.message}", status=409, code="aborted")
    reply = {
        "prompt_tokens": len(ids),
        "cached_tokens": len(ids) - len(ids) % service.config.page_size,
        "computed_tokens": len(ids) - answer.cached_tokens,
        "weight_version": answer.weight_version,
    }
    await exchange.send_json(reply)


async def _prefix_ids(service: EngineService, body: PrefetchBody, given: str, body_bytes: int) -> list[int]:
    """Return the prompt's ids; a conversation without the beginning of the answer, since another message may
    follow."""
    if given == "messages":
        if body.add_generation_prompt is None:
            body.add_generation_prompt = False
        return (await render_chat_prompt(service, body, body_bytes=body_bytes)).ids
    prompt = body.text if body.text is not None else body.input_ids or []
    (ids,) = await service.encode_prompts([prompt], param=given)
    return ids


class TokenizeBody(ChatCompletionBody, kw_only=True):
    """A prompt, several, or a conversation: a chat request as it is will do."""

    prompt: str | list[str] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    """Name the tokens too, as the vocabulary writes them."""


class DetokenizeBody(msgspec.Struct, kw_only=True):
    """Token ids, or several lists of them."""

    tokens: list[int | list[int]]
    model: str | None = None
    skip_special_tokens: bool = False


MAX_TOKENIZE_BYTES = 2 * 1024 * 1024  # of text: some two seconds of a core and 400 MB


async def tokenize(service: EngineService, exchange: HttpExchange, body: TokenizeBody) -> None:
    """Text or conversation to token ids, also where they are more than the context holds."""
    size, special = exchange.body_bytes, body.add_special_tokens is not False
    service.check_model(body.model)
    if body.prompt is None:
        all_ids = [(await render_chat_prompt(service, body, body_bytes=size, must_fit=False)).ids]
    elif body.prompt == "":  # nothing to generate from, but it has a number of tokens
        all_ids = [service.tokenizer.encode("", add_special_tokens=special)]
    else:
        prompts = split_prompts(body.prompt, param="prompt")
        all_ids = await service.encode_prompts(
            prompts, param="prompt", add_special_tokens=special, must_fit=False
        )
    several = isinstance(body.prompt, list)
    counts = [len(ids) for ids in all_ids]
    reply: dict[str, Any] = {
        "count": counts if several else counts[0],
        "max_model_len": service.engine.model_info.context_length,
        "tokens": all_ids if several else all_ids[0],
    }
    reply["token_strs"] = None
    if body.return_token_strs:
        name_token = service.tokenizer.backend.id_to_token
        names = [[name_token(token_id) for token_id in ids] for ids in all_ids]
        reply["token_strs"] = names if several else names[0]
    await exchange.send_json(reply)


async def tokenizer_info(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """The tokenizer's configuration, as tokenizer_config.json has it, and its chat template."""

    def read_config() -> dict[str, Any]:
        try:
            config = json.loads((Path(service.tokenizer_path) / "tokenizer_config.json").read_bytes())
        except (OSError, ValueError):
            config = {}
        return config if isinstance(config, dict) else {}

    reply = {"tokenizer_class": "PreTrainedTokenizerFast", **await asyncio.to_thread(read_config)}
    template = service.tokenizer.chat_templates.get("default")
    reply["chat_template"] = None if template is None else template.source
    await exchange.send_json(reply)


async def detokenize(service: EngineService, exchange: HttpExchange, body: DetokenizeBody) -> None:
    """Decode token ids to text, with special tokens unless the body says otherwise."""
    service.check_model(body.model)
    several = bool(body.tokens) and isinstance(body.tokens[0], list)
    given = split_prompts(body.tokens, param="tokens") if body.tokens else []
    all_ids = await service.encode_prompts(given, param="tokens") or [[]]

    def decode_all() -> list[str]:
        skip = body.skip_special_tokens
        return [service.tokenizer.decode(ids, skip_special_tokens=skip) for ids in all_ids]

    texts = await service.run_off_loop(decode_all, characters=sum(map(len, all_ids)))
    text = texts if several else texts[0]
    await exchange.send_json({"prompt": text, "text": text})
