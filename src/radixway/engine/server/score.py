"""POST /v1/score: SGLang's scores, how likely some tokens are to come after a query and an item."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from radixway.core.http import BadBodyError, HttpError, ReshapedError
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.engine_service import EngineService, GenerationJob
from radixway.engine.server.http_exchange import HttpExchange, encode
from radixway.engine.server.sampling import MAX_ANSWERS, field_names
from radixway.engine.server.unsupported_fields import refuse_unsupported


class UnsupportedScoreFields(msgspec.Struct, kw_only=True):
    """Fields of SGLang's that this engine knows and does not serve."""

    embed_override_token_id: Any = None
    item_embed_overrides: Any = None
    query_embed_overrides: Any = None
    return_pooled_hidden_states: Any = None
    score_extraction_token: Any = None


class ScoreBody(UnsupportedScoreFields, kw_only=True):
    """The request: texts, or lists of token ids."""

    model: str | None = None
    query: str | list[int] | None = None
    items: str | list[str | list[int]] | None = None
    label_token_ids: list[int | list[int]] | None = None
    """The tokens to score, for all items or a list for each."""
    apply_softmax: bool = False
    """Divide the probabilities of an item's tokens by their sum."""
    temperature: float = 1.0
    """Of the softmax."""
    return_token_logprobs: bool = False
    item_first: bool = False


async def score(service: EngineService, exchange: HttpExchange, body: ScoreBody) -> None:
    """Score each item by the probabilities of the token that would come next."""
    service.check_model(body.model)
    refuse_unsupported(body, UnsupportedScoreFields)
    if body.temperature <= 0 or (body.temperature != 1 and not body.apply_softmax):
        message = "temperature must be greater than 0, and other than 1 it needs apply_softmax"
        raise BadBodyError(message, param="temperature")
    prompts = _join_prompts(body)
    if len(prompts) > MAX_ANSWERS:
        raise BadBodyError(f"items are more than {MAX_ANSWERS}", param="items")
    labels = _labels_by_item(service, body.label_token_ids, len(prompts))
    jobs, all_logprobs = [], list[list[float]]()
    with field_names({"prompt": "items", "logprob_ids": "label_token_ids"}):
        prompt_ids = await service.encode_prompts(prompts, param="items")
        for ids, wanted in zip(prompt_ids, labels, strict=True):
            params = SamplingParams(max_tokens=1, temperature=0, logprobs=0, logprob_ids=tuple(wanted))
            jobs.append(GenerationJob(ids, params, exchange.request_id))
        async with service.start_generations(exchange, jobs) as answers:
            for output in await answers.gather_outputs():
                if not output.logprobs:
                    raise HttpError("the request was aborted", status=409, code="aborted")
                all_logprobs.append([logprob for _, logprob in output.logprobs[0].named])
    usage = {"prompt_tokens": sum(map(len, prompt_ids)), "completion_tokens": 0}
    reply = {
        "object": "scoring",
        "model": service.names[0],
        "scores": [
            _softmax(each, body.temperature) if body.apply_softmax else [math.exp(one) for one in each]
            for each in all_logprobs
        ],
        "token_logprobs": all_logprobs if body.return_token_logprobs else None,
        "usage": usage | {"total_tokens": usage["prompt_tokens"]},
    }
    await exchange.send_json(reply)


def shape_error(error: HttpError) -> HttpError:
    """Return `error` with SGLang's fields of it beside OpenAI's."""
    kind = "BadRequestError" if error.status == 400 else "NotFoundError" if error.status == 404 else "Error"
    fields = {"object": "error", "message": error.client_message, "type": kind, "code": error.status}
    return ReshapedError(error, encode(fields | msgspec.json.decode(error.body())))


def _join_prompts(body: ScoreBody) -> Sequence[str | list[int]]:
    if body.items is None:
        raise BadBodyError("items: missing", param="items", code="missing_field")
    items = [body.items] if isinstance(body.items, str) else body.items
    if not items:
        raise BadBodyError("items is empty", param="items", code="empty_prompt")
    query = body.query
    if all(isinstance(item, str) for item in items) and isinstance(query, str | None):
        return [f"{item}{query or ''}" if body.item_first else f"{query or ''}{item}" for item in items]
    if all(isinstance(item, list) for item in items) and isinstance(query, list | None):
        lists = [item for item in items if isinstance(item, list)]
        return [[*item, *(query or ())] if body.item_first else [*(query or ()), *item] for item in lists]
    raise BadBodyError("query and items must be texts, or lists of token ids", param="items")


def _labels_by_item(
    service: EngineService, given: list[int | list[int]] | None, count: int
) -> list[list[int]]:
    param = "label_token_ids"
    if not given:
        raise BadBodyError(f"{param} needs at least one token", param=param, code="missing_field")
    shared = [each for each in given if isinstance(each, int)]
    labels = [each for each in given if isinstance(each, list)]
    if shared and labels:
        raise BadBodyError(f"{param} mixes token ids and lists of them", param=param)
    if shared:
        labels = [shared] * count
    if len(labels) != count:
        raise BadBodyError(f"{param} has {len(labels)} lists for {count} items", param=param)
    for each in labels:
        service.check_token_ids(each, param)
    return labels


def _softmax(logprobs: Sequence[float], temperature: float) -> list[float]:
    most = max(logprobs)
    weights = [math.exp((each - most) / temperature) for each in logprobs]
    return [each / sum(weights) for each in weights]
