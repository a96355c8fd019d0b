"""From logits to tokens, for a whole batch at once.

    logits ─ penalties ─ bias ─ min_tokens ─ bans ─ grammar ─┬─ temperature 0: the largest
                                                             └─ / temperature ─ top_k ─ top_p ─ min_p ─ draw

The order is that of `transformers` (top_p counts what top_k left). Log-probabilities are taken before all of
it. A draw uses one uniform number that depends on the request's seed and the token's place alone, so what
else is in the batch, preemption and caching change nothing about it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from radixway.engine.engine_request import EngineRequest, LogitEdits, PenaltyState, TokenLogprob
from radixway.engine.errors import GrammarStateError
from radixway.engine.logprobs import token_logprobs

log = logging.getLogger(__name__)

NUCLEUS_WIDTH = 1024
"""The most likely tokens in which a top_p nucleus is looked for before sorting the whole vocabulary."""

NO_FINITE_LOGIT = "no token can be chosen: the model's output is not a number (are its weights whole?)"


NO_ALLOWED_TOKEN = "no token can be chosen: the constraint and the other parameters rule all of them out"


@dataclass(slots=True, frozen=True)
class SampledToken:
    """The token drawn for one request; `token_id` is -1 if nothing could be, for the reason in `failure`."""

    token_id: int
    logprob: TokenLogprob | None = None
    failure: str = ""


@torch.inference_mode()
def sample_tokens(logits: Tensor, requests: Sequence[EngineRequest]) -> list[SampledToken]:
    """Draw the next token of each of `requests` from its row of `logits` [n, vocabulary] (float32,
    unchanged).

    What cannot be sampled for one request harms no other.
    """
    try:
        return _sample_batch(logits, requests)
    except Exception as error:
        log.exception("sampling for %s failed", ", ".join(request.id for request in requests))
        if len(requests) == 1:
            return [SampledToken(-1, failure=f"sampling failed: {error}")]
    for request in requests:
        request.penalty_state = None  # it may have been counted in part
    return [sample_tokens(logits[row : row + 1], [request])[0] for row, request in enumerate(requests)]


def _sample_batch(logits: Tensor, requests: Sequence[EngineRequest]) -> list[SampledToken]:
    scores, failures = logits, {}
    if any(_is_edited(request) for request in requests):
        scores = logits.clone()
        _apply_penalties(scores, requests)
        _apply_logit_edits(scores, requests)
        failures = _mask_disallowed(scores, requests)
    samples = [
        SampledToken(token, failure=failures.get(row) or _failure_reason(requests[row]) if token < 0 else "")
        for row, token in enumerate(_select_tokens(scores, requests))
    ]
    wanting = [
        row for row, r in enumerate(requests) if r.params.logprobs is not None and not samples[row].failure
    ]
    if wanting:
        tokens = [samples[row].token_id for row in wanting]
        params = [requests[row].params for row in wanting]
        found = token_logprobs(
            logits[wanting], tokens, [p.logprobs or 0 for p in params], [p.logprob_ids for p in params]
        )
        for row, logprob in zip(wanting, found, strict=True):
            samples[row] = SampledToken(logprob.token_id, logprob)
    return samples


def uniform_draw(seed: int, index: int) -> float:
    """The `index`-th number in [0, 1) of the stream `seed`: SplitMix64 (Steele et al., OOPSLA 2014)."""
    mask = 2**64 - 1
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) >> 11) / 2**53


def _is_edited(request: EngineRequest) -> bool:
    return bool(request.params.edits_logits or request.matcher or _may_not_end(request))


def _failure_reason(request: EngineRequest) -> str:
    params = request.params
    is_limited = request.matcher is not None or params.allowed_token_ids is not None or params.bad_words
    return NO_ALLOWED_TOKEN if is_limited else NO_FINITE_LOGIT


def _may_not_end(request: EngineRequest) -> bool:
    return bool(request.stop_ids) and request.completion_tokens < request.params.min_tokens


def _apply_penalties(logits: Tensor, requests: Sequence[EngineRequest]) -> None:
    """OpenAI's presence and frequency penalties over sampled tokens; CTRL's repetition penalty
    (arXiv:1909.05858) over prompt and sampled tokens."""
    for row, request in enumerate(requests):
        params = request.params
        if not params.is_penalised:
            continue
        seen = request.penalty_state = _update_penalty_state(request, logits.shape[-1], logits.device)
        scores = logits[row]
        if params.repetition_penalty != 1:
            by = torch.where(scores > 0, 1 / params.repetition_penalty, params.repetition_penalty)
            scores.copy_(torch.where(seen.present, scores * by, scores))
        scores -= params.frequency_penalty * seen.counts + params.presence_penalty * (seen.counts > 0)


def _update_penalty_state(request: EngineRequest, vocabulary: int, device: torch.device) -> PenaltyState:
    seen = request.penalty_state
    if seen is None:
        counts = torch.zeros(vocabulary, device=device)
        present = torch.zeros(vocabulary, dtype=torch.bool, device=device)
        seen = PenaltyState(request.prompt_len, counts, present)
        seen.present[torch.tensor(request.tokens[: seen.upto], device=device)] = True
    new = torch.tensor(request.tokens[seen.upto :], dtype=torch.int64, device=device)
    seen.counts.index_add_(0, new, torch.ones(len(new), device=device))
    seen.present[new] = True
    seen.upto = len(request.tokens)
    return seen


def _apply_logit_edits(logits: Tensor, requests: Sequence[EngineRequest]) -> None:
    """Add biases and rule out banned tokens and, before `min_tokens`, those that end the answer; in place."""
    for row, request in enumerate(requests):
        may_not_end = _may_not_end(request)
        if not may_not_end and not request.params.edits_logits:
            continue
        edits = request.logit_edits = request.logit_edits or _make_logit_edits(request, logits)
        if request.params.logit_bias:
            logits[row].index_add_(0, edits.biased, edits.by)
        if may_not_end:
            logits[row].index_fill_(0, edits.ends, -torch.inf)
        if edits.banned is not None:
            logits[row].masked_fill_(edits.banned, -torch.inf)
        if completing := _find_completing_tokens(request):
            logits[row, completing] = -torch.inf


def _make_logit_edits(request: EngineRequest, logits: Tensor) -> LogitEdits:
    params, device = request.params, logits.device
    bias, allowed = params.logit_bias, params.allowed_token_ids
    banned = None
    single = [word[0] for word in params.bad_words if len(word) == 1]
    if allowed is not None or single:
        banned = torch.full(logits.shape[-1:], allowed is not None, device=device)
        banned[list(allowed or ())] = False
        banned[single] = True
    return LogitEdits(
        torch.tensor(list(bias), dtype=torch.int64, device=device),
        torch.tensor(list(bias.values()), dtype=torch.float32, device=device),
        torch.tensor(list(request.stop_ids), dtype=torch.int64, device=device),
        banned,
    )


def _find_completing_tokens(request: EngineRequest) -> list[int]:
    """Return the tokens that would complete one of the bad words of several tokens in the answer."""
    words = [word for word in request.params.bad_words if 1 < len(word) <= request.completion_tokens + 1]
    return [word[-1] for word in words if tuple(request.tokens[1 - len(word) :]) == word[:-1]]


def _mask_disallowed(scores: Tensor, requests: Sequence[EngineRequest]) -> dict[int, str]:
    """Mask, in place, what grammars forbid next: [n, vocabulary], a row per request."""
    rows = [row for row, request in enumerate(requests) if request.matcher is not None]
    if not rows:
        return {}
    failures = {}
    allowed = np.zeros((len(rows), scores.shape[1]), dtype=np.bool_)
    for place, row in enumerate(rows):
        request = requests[row]
        assert request.matcher is not None
        try:
            allowed[place] = request.matcher.allowed_tokens(request.stop_ids)
        except GrammarStateError as error:
            failures[row] = str(error)
    ruled_out = ~torch.from_numpy(allowed).to(scores.device)
    for place, row in enumerate(rows):  # in place: gathering the rows would copy them twice
        scores[row].masked_fill_(ruled_out[place], -torch.inf)
    return failures


def _select_tokens(logits: Tensor, requests: Sequence[EngineRequest]) -> list[int]:
    """Return a token per row; -1 where none is left, or scores are not numbers."""
    largest, tokens = logits.max(-1)
    chosen: list[int] = torch.where(largest.isfinite(), tokens, -1).tolist()
    rows = [row for row, r in enumerate(requests) if not r.params.greedy and chosen[row] >= 0]
    if rows:
        drawn = _draw_tokens(logits[rows], [requests[row] for row in rows])
        for row, token in zip(rows, drawn, strict=True):
            chosen[row] = token
    return chosen


def _draw_tokens(scores: Tensor, requests: Sequence[EngineRequest]) -> list[int]:
    """One token per row of `scores` [n, vocabulary], by the inverse of the cumulative distribution."""

    def column(of: Callable[[EngineRequest], float], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.tensor([of(request) for request in requests], dtype=dtype, device=scores.device)[:, None]

    scores -= scores.amax(-1, keepdim=True)  # so that dividing cannot make an infinity of the best
    scores /= column(lambda r: r.params.temperature)
    vocabulary = scores.shape[1]
    cut = [row for row, r in enumerate(requests) if 0 < r.params.top_k < vocabulary or r.params.top_p < 1]
    if cut:
        lowest = _cutoff_score(scores[cut], [requests[row] for row in cut])
        scores[cut] = scores[cut].masked_fill_(scores[cut] < lowest, -torch.inf)
    if any(r.params.min_p > 0 for r in requests):
        scores.masked_fill_(scores < column(lambda r: r.params.min_p).log(), -torch.inf)
    reached = scores.softmax(-1).cumsum(-1, dtype=torch.float64)
    wanted = column(lambda r: uniform_draw(r.seed, len(r.tokens)), torch.float64) * reached[:, -1:]
    tokens: list[int] = torch.searchsorted(reached, wanted, right=True).squeeze(1).tolist()
    return [min(token, scores.shape[1] - 1) for token in tokens]


def _cutoff_score(scores: Tensor, requests: Sequence[EngineRequest], width: int = NUCLEUS_WIDTH) -> Tensor:
    """Return the lowest score [n, 1] that passes top_k, then top_p. Ties pass, so that nothing depends on
    the order of a sort.
    """
    vocabulary = scores.shape[1]
    ks = [r.params.top_k if 0 < r.params.top_k < vocabulary else vocabulary for r in requests]
    width = min(vocabulary, max([width, *(k for k in ks if k < vocabulary)]))
    best = scores.topk(width).values
    k = torch.tensor(ks, device=scores.device)[:, None]
    kth = best.gather(1, k.clamp(max=width) - 1)
    # what top_k keeps, all of it: of the whole row where top_k is off
    total = torch.where(k < vocabulary, best.masked_fill(best < kth, -torch.inf).logsumexp(-1, True), 0)
    if any(k == vocabulary for k in ks):
        total = torch.where(k < vocabulary, total, scores.logsumexp(-1, True))
    chances = (best - total).exp()
    top_p = torch.tensor([r.params.top_p for r in requests], device=scores.device)[:, None]
    in_nucleus = (chances.cumsum(-1) - chances < top_p) & (best >= kth)
    if width < vocabulary and bool((in_nucleus[:, -1:] & (k > width)).any()):
        return _cutoff_score(scores, requests, vocabulary)
    return best.gather(1, (in_nucleus.sum(-1, keepdim=True) - 1).clamp(min=0))
