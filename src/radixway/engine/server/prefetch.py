"""POST /prefetch: computes the KV of a prefix before the request comes that will begin with it."""

from radixway.core.http import BadBodyError, HttpError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.chat_completions import ChatCompletionBody, render_chat_prompt
from radixway.engine.server.engine_service import EngineService, GenerationJob
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
