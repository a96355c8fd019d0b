"""Beam search, vLLM's `use_beam_search`: the `n` likeliest answers instead of sampled ones.

Each step asks the engine for the likeliest next tokens of every beam, in one batch; what a beam has so far is
found in the radix cache, so a step computes the tokens of its last page.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from radixway.core.http import BadBodyError
from radixway.engine.engine_request import FinishReason, RequestOutput, TokenLogprob
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.engine_service import EngineService, GenerationJob
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.openai_fields import SamplingBody

_SAMPLING_FIELDS = ("stop", "stop_regex", "min_tokens", "grammar", "edits_logits")
_BODY_FIELDS = ("stream", "logprob_token_ids", "bootstrap_room")


@dataclass(slots=True, frozen=True, eq=False)
class Beam:
    """A beginning of an answer, or a whole one: a token after another beam, which many may share."""

    parent: "Beam | None" = None
    last: TokenLogprob | None = None
    """The last token, with the likeliest in its place; None for the beam without tokens."""
    num_tokens: int = 0
    total: float = 0.0
    """The log-probability of all tokens."""
    finish: FinishReason | None = None

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """Of each token, with the likeliest in its place."""
        items, beam = [], self
        while beam.parent is not None and beam.last is not None:
            items.append(beam.last)
            beam = beam.parent
        return items[::-1]

    @property
    def token_ids(self) -> list[int]:
        return [item.token_id for item in self.logprobs]

    def end(self, reason: Literal["length", "abort"]) -> "Beam":
        """Return this beam as an answer that ended for `reason`."""
        return replace(self, finish=FinishReason(reason))


@dataclass(slots=True)
class BeamGroup:
    """The beams of one prompt."""

    job: GenerationJob
    max_tokens: int
    length_penalty: float
    width: int
    num_top: int = 0
    """The likeliest tokens that are told for each token of an answer."""
    open: list[Beam] = field(default_factory=lambda: [Beam()])
    ended: list[Beam] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    weight_version: str = ""

    def score_beam(self, beam: Beam, num_tokens: int) -> float:
        """Return the rank of `beam`, if it were `num_tokens` long: as vLLM's, by the prompt's length too."""
        return float(beam.total / (len(self.job.prompt_ids) + num_tokens) ** self.length_penalty)

    def add_candidates(self, beam: Beam, step: TokenLogprob, stop_ids: frozenset[int]) -> list[Beam]:
        """Return the beams that go on from `beam`; those that end go to `ended`."""
        going_on, told = [], step.top[: self.num_top]
        for token_id, logprob in step.top[: 2 * self.width]:
            item = TokenLogprob(token_id, logprob, told)
            longer = Beam(beam, item, beam.num_tokens + 1, beam.total + logprob)
            if token_id in stop_ids:
                self.ended.append(replace(longer, finish=FinishReason("stop", token_id)))
            else:
                going_on.append(longer)
        return going_on

    def keep_best(self, candidates: Sequence[Beam]) -> None:
        """Go on with the best of `candidates`, as long as one of them may still be among the best answers."""
        self.open = sorted(candidates, key=lambda beam: -beam.total)[: self.width]
        length = self.open[0].num_tokens if self.open else 0
        if length >= self.max_tokens:
            self.ended += [each.end("length") for each in self.open]
            self.open = []
        self.ended = sorted(self.ended, key=self._final_score, reverse=True)[: self.width]
        if self.open and len(self.ended) == self.width:
            lengths = (length, self.max_tokens)  # the score of a beam that loses nothing more is between
            bound = max(self.score_beam(self.open[0], each) for each in lengths)
            if bound <= self._final_score(self.ended[-1]):
                self.open = []

    def abort_beams(self) -> None:
        """End all beams as they are."""
        self.ended += [each.end("abort") for each in self.open]
        self.ended, self.open = self.ended[: self.width], []

    def _final_score(self, beam: Beam) -> float:
        assert beam.finish is not None
        return self.score_beam(beam, beam.num_tokens - (beam.finish.type == "stop"))


async def search_beams(
    service: EngineService, exchange: HttpExchange, body: SamplingBody, jobs: Sequence[GenerationJob], n: int
) -> list[RequestOutput]:
    """Return the `n` likeliest answers of each prompt, best first; `jobs` has each prompt `n` times.

    Raises BadBodyError (400) naming what beams cannot follow.
    """
    groups = [_start_group(service, body, job, n) for job in jobs[::n]]
    params = jobs[0].params
    count = max(2 * n, params.logprobs or 0)
    step = SamplingParams(max_tokens=1, temperature=0, logprobs=count, ignore_eos=True)
    stop_ids = service.engine.model_info.collect_stop_ids(params)
    ids = {exchange.request_id, *(job.request_id for job in jobs)}
    with service.hold_ids(ids, body.client_ids) as aborted:
        while pairs := [(group, beam) for group in groups for beam in group.open]:
            steps = [
                GenerationJob([*group.job.prompt_ids, *beam.token_ids], step, group.job.request_id)
                for group, beam in pairs
            ]
            async with service.start_generations(
                exchange, steps, body, extra_key=body.extra_key, is_step=True
            ) as answers:
                outputs = await answers.gather_outputs()
            candidates: dict[int, list[Beam]] = {id(group): [] for group, _ in pairs}
            for (group, beam), output in zip(pairs, outputs, strict=True):
                if not beam.num_tokens:
                    group.prompt_tokens, group.cached_tokens = output.prompt_tokens, output.cached_tokens
                group.weight_version = output.weight_version
                if output.logprobs:
                    candidates[id(group)] += group.add_candidates(beam, output.logprobs[0], stop_ids)
            is_aborted = aborted.is_set() or any(
                output.finish and output.finish.type == "abort" for output in outputs
            )
            for group in groups:
                if group.open and not is_aborted:
                    group.keep_best(candidates[id(group)])
                elif group.open:
                    group.abort_beams()
    service.metrics.latency_s.observe(time.perf_counter() - exchange.arrived_at)
    return [_make_output(service, group, beam, params) for group in groups for beam in group.ended]


def _start_group(service: EngineService, body: SamplingBody, job: GenerationJob, n: int) -> BeamGroup:
    named = [name for name in _SAMPLING_FIELDS if getattr(job.params, name)]
    named += [name for name in _BODY_FIELDS if getattr(body, name)]
    if job.params.prompt_logprobs is not None:
        named.append("prompt_logprobs")
    if named:
        shown = {"grammar": "a constraint", "edits_logits": "a change of logits"}
        message = f"use_beam_search with {shown.get(named[0], named[0])} is not supported"
        raise BadBodyError(message, param="use_beam_search", code="unsupported")
    info, given = service.engine.model_info, job.params.max_tokens
    info.validate_request(job.prompt_ids, job.params, has_text=True)
    left = info.context_length - len(job.prompt_ids)
    penalty = 1.0 if body.length_penalty is None else body.length_penalty
    return BeamGroup(job, max(1, left if given is None else given), penalty, n, job.params.logprobs or 0)


def _make_output(
    service: EngineService, group: BeamGroup, beam: Beam, params: SamplingParams
) -> RequestOutput:
    logprobs = beam.logprobs
    token_ids = [item.token_id for item in logprobs]
    is_stop = beam.finish is not None and beam.finish.type == "stop"
    text = service.tokenizer.decode(
        token_ids[:-1] if is_stop else token_ids, skip_special_tokens=params.skip_special_tokens
    )
    return RequestOutput(
        request_id=group.job.request_id,
        token_ids=token_ids,
        logprobs=[] if params.logprobs is None else logprobs,
        text=text,
        finish=beam.finish,
        prompt_tokens=group.prompt_tokens,
        cached_tokens=group.cached_tokens,
        completion_tokens=len(token_ids),
        weight_version=group.weight_version,
    )
