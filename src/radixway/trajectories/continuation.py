"""The next request for an aborted answer: the same one, continued from its tokens."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from radixway.trajectories.partial_answer import Json, PartialAnswer

_DEFAULT_MAX_NEW_TOKENS = 128
"""SGLang's, where a request gives none."""

_CONSTRAINTS = ("regex", "json_schema", "ebnf", "structural_tag", "stop_regex")


def sampling_params(body: Json) -> Json:
    """`sampling_params` of `body`; empty if it has none."""
    params = body.get("sampling_params")
    return params if isinstance(params, dict) else {}


def stop_strings(body: Json) -> list[str]:
    """The stop strings of `body`."""
    given = sampling_params(body).get("stop")
    stops = [given] if isinstance(given, str) else given
    return [stop for stop in stops if isinstance(stop, str)] if isinstance(stops, list) else []


def continuation_obstacle(body: Json) -> str | None:
    """The field of `body` that keeps an answer from being continued; None if there is none.

    A grammar would begin again in the middle of the answer; to embeddings no token can be appended, and a
    session of the worker's own would be given its turn twice.
    """
    params = sampling_params(body)
    for name in _CONSTRAINTS:
        if params.get(name):
            return f"sampling_params.{name}"
    return next((name for name in ("input_embeds", "session_params") if body.get(name)), None)


def remaining_tokens(body: Json, sampled: int) -> int | None:
    """The number of tokens that may still be sampled; None leaves it to the worker.

    That is where the request gives no number and the worker has made more than its default: then it has a
    default of its own.
    """
    most = sampling_params(body).get("max_new_tokens")
    if type(most) is int:
        return max(0, most - sampled)
    return _DEFAULT_MAX_NEW_TOKENS - sampled if sampled < _DEFAULT_MAX_NEW_TOKENS else None


def continuation_fields(
    body: Json, answer: PartialAnswer, prompt_ids: Sequence[int] | None
) -> dict[str, Any]:
    """The fields of `body` to change for the next attempt (`Request.edit`): none if nothing was sampled.

    Without `prompt_ids` the text so far is sent as text, of which a worker may make other tokens.
    """
    if not answer.ids:
        return {}
    fields: dict[str, Any] = {"sampling_params": _reduce_budget(body, len(answer.ids))}
    if prompt_ids is not None:
        fields |= {"input_ids": [*prompt_ids, *answer.ids], "text": UNSET}
    else:
        fields["text"] = f"{body.get('text') or ''}{answer.text}"
    if body.get("logprob_start_len") is not None:
        fields["logprob_start_len"] = -1  # the prompt's have come with the first part
    prompt_tokens = answer.meta.get("prompt_tokens")
    if type(prompt_tokens) is int and isinstance(answer.meta.get("routed_experts"), str):
        fields["routed_experts_start_len"] = prompt_tokens + len(answer.ids) - 1
    return fields


def _reduce_budget(body: Json, sampled: int) -> Json:
    params = dict(sampling_params(body))
    left = remaining_tokens(body, sampled)
    if left is not None:
        params["max_new_tokens"] = left
    least = params.get("min_new_tokens")
    if type(least) is int:
        params["min_new_tokens"] = max(0, least - sampled)
    return params
