"""Log-probabilities: of the tokens that were sampled, and of those a prompt is made of.

The logits of position j say how likely each token was to come after it, so a prompt's own tokens are scored
by the rows before them:

    prompt   [ t0 t1 | t2 t3 t4 t5 ]        prompt_logprobs_start = 2: t3, t4 and t5 are wanted
    rows               r2 r3 r4 (r5)        r5 is where sampling begins

What is cached has no hidden states, so a request takes no more than `num_reusable_tokens` from the cache.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from radixway.engine.engine_request import EngineRequest, ScheduledRequest, TokenLogprob

MAX_LOGITS = 2**23
"""Prompt rows are scored this many logits (32 MiB) at a time, however long the prompt."""


def token_logprobs(
    raw: Tensor,
    tokens: Sequence[int],
    counts: Sequence[int],
    named: Sequence[tuple[int, ...]],
    *,
    ranked: bool = False,
) -> list[TokenLogprob]:
    """The log-probabilities of `tokens`, one for each row of the `raw` logits [n, vocabulary] (float32).

    Also of the `counts` most likely ones in its place, and of those `named`. `ranked`: count what is
    likelier, which takes as long as the softmax.
    """
    logprobs = raw.log_softmax(-1)
    index = torch.tensor(tokens, device=raw.device)[:, None]
    own = logprobs.gather(1, index)
    ranks = [0] * len(tokens)
    if ranked:
        ranks = ((logprobs > own).sum(-1, dtype=torch.int32) + 1).tolist()
    width = min(max(counts), raw.shape[1])
    values, ids = (
        (part.tolist() for part in logprobs.topk(width))
        if width
        else ([[]] * len(tokens), [[]] * len(tokens))
    )
    chosen = [
        tuple(zip(names, logprobs[row, list(names)].tolist(), strict=True)) if names else ()
        for row, names in enumerate(named)
    ]
    return [
        TokenLogprob(
            token, logprob, tuple(zip(ids[row][:k], values[row][:k], strict=True)), chosen[row], rank
        )
        for row, (token, (logprob,), k, rank) in enumerate(
            zip(tokens, own.tolist(), counts, ranks, strict=True)
        )
    ]


class _ScoredRow(NamedTuple):
    """A row of hidden states that scores a prompt token."""

    row: int
    request: EngineRequest
    position: int
    """Position of the scored token."""


def score_prompts(
    logits: Callable[[Tensor], Tensor], hidden: Tensor, work: Sequence[ScheduledRequest], vocabulary: int
) -> None:
    """Add what this step's `hidden` [T, H] says of the prompts in `work` to their `prompt_logprobs`.

    The rows of `work` stand in `hidden` one after another.
    """
    rows: list[_ScoredRow] = []
    start = 0
    for request, tokens in work:
        last = min(request.num_computed_tokens + tokens, request.prompt_len - 1)
        first = max(request.scored, request.num_computed_tokens)
        rows += [
            _ScoredRow(start + at - request.num_computed_tokens, request, at + 1) for at in range(first, last)
        ]
        request.scored = max(request.scored, last)
        start += tokens
    remaining = iter(rows)
    while part := list(islice(remaining, max(1, MAX_LOGITS // vocabulary))):
        _score_rows(logits(hidden[[row for row, _, _ in part]]), part)


def _score_rows(raw: Tensor, rows: Sequence[_ScoredRow]) -> None:
    params = [request.params for _, request, _ in rows]
    scored = token_logprobs(
        raw,
        [request.tokens[position] for _, request, position in rows],
        [p.prompt_logprobs or 0 for p in params],
        [p.logprob_ids for p in params],
        ranked=True,
    )
    for (_, request, _), logprob in zip(rows, scored, strict=True):
        request.prompt_logprobs.append(logprob)
