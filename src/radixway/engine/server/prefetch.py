"""POST /prefetch: compute the KV of a prefix before the request comes that will begin with it."""

import time

import msgspec

from radixway.core.http import BadBodyError, HttpError, decode_json
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.chat_completions import ChatCompletionBody, render_chat_prompt
from radixway.engine.server.engine_service import EngineService, GenerationJob, prefix_namespace
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.prompt_inputs import encode_prompts
from radixway.engine.server.sampling import field_names


class PrefetchBody(ChatCompletionBody, kw_only=True):
    """One of `text`, `input_ids` and `messages`; salt and priority as the request that follows has them."""

    text: str | None = None
    input_ids: list[int] | None = None
    extra_key: str | None = None


_PARAMS = SamplingParams(max_tokens=0, temperature=0)
_decoder = msgspec.json.Decoder(PrefetchBody)
_encode = msgspec.json.Encoder().encode


async def prefetch(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Answers once it is done, with how many tokens a request that begins so will find in the cache."""
    arrived_at = time.perf_counter()
    body = decode_json(_decoder, raw)
    service.check_model(body.model)
    if not service.config.radix_cache:
        raise BadBodyError(
            "this engine runs without its radix cache, so it cannot prefetch", code="cache_disabled"
        )
    given = [name for name in ("text", "input_ids", "messages") if getattr(body, name) is not None]
    if len(given) != 1:
        named = given[1] if given else "text"
        message = "give one of text, input_ids and messages"
        raise BadBodyError(message, param=named, code="invalid_value" if given else "missing_field")
    with field_names({"prompt": given[0], "max_tokens": given[0]}):
        ids = await _prefix_ids(service, body, given[0], len(raw))
        async with service.start_generations(
            [GenerationJob(ids, _PARAMS, exchange.request_id)],
            arrived_at=arrived_at,
            namespace=prefix_namespace(cache_salt=body.cache_salt, extra_key=body.extra_key),
            priority=body.priority,
        ) as answers:
            (answer,) = await answers.gather_outputs()
    if answer.finish is not None and answer.finish.type == "abort":
        raise HttpError(f"not prefetched: {answer.finish.message}", status=409, code="aborted")
    reply = {
        "prompt_tokens": len(ids),
        "cached_tokens": len(ids) - len(ids) % service.config.page_size,
        "computed_tokens": len(ids) - answer.cached_tokens,
        "weight_version": answer.weight_version,
    }
    await exchange.send_json(_encode(reply))


async def _prefix_ids(service: EngineService, body: PrefetchBody, given: str, body_bytes: int) -> list[int]:
    """A conversation is taken without the beginning of the answer: another message may follow."""
    if given == "messages":
        if body.add_generation_prompt is None:
            body.add_generation_prompt = False
        return (await render_chat_prompt(service, body, body_bytes=body_bytes)).ids
    prompt = body.text if body.text is not None else body.input_ids or []
    (ids,) = await encode_prompts(service, [prompt], param=given)
    return ids
