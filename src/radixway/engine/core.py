"""The engine without threads: requests in, one step at a time, outputs out."""

import random
import time
import uuid
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from radixway.engine.disaggregation import Arrivals, Departures, Room
from radixway.engine.events import CacheEvents
from radixway.engine.info import EngineStats, ModelInfo
from radixway.engine.model import Model
from radixway.engine.request import FinishReason, Output, Request, SamplingParams, TextStream, TokenLogprob
from radixway.engine.request_checks import check_request, stop_ids
from radixway.engine.runner import Runner
from radixway.engine.sampler import Sample, sample
from radixway.engine.scheduler import Scheduler
from radixway.engine.tiers import TierStats

_LOAD_WAIT_S = 0.005
"""How long an abort or a new request may go unseen while only loads are under way."""

_SAVING_S = 10.0
"""How long an orderly stop may take to write to disk what is on the device."""

TextFactory = Callable[[SamplingParams], TextStream]
"""Makes the `TextStream` of a request; the engine asks for one per request."""


class Core:
    """Scheduler, model and sampler, put together. One thread calls `add`, `abort`, `step` and `reset`."""

    def __init__(
        self,
        model_info: ModelInfo,
        runner: Runner,
        new_scheduler: Callable[[], Scheduler],
        *,
        text: TextFactory | None = None,
        seed: int = 0,
        events: CacheEvents | None = None,
        side: Arrivals | Departures | None = None,
    ) -> None:
        """`side`: of a pair of engines, one of which prefills for the other."""
        self.side = side
        self.model_info = model_info
        self.scheduler = new_scheduler()
        self.runner = runner
        self._new_scheduler = new_scheduler
        self._text = text
        self._events = events
        self._arrivals = count(1)
        self._seeds = random.Random(seed)
        self.paused = False
        self._epoch = ""  # the beginning of every namespace since the last update of weights that kept KV
        self._requests = self._prompt_tokens = self._cached_tokens = self._generated_tokens = 0
        self._remote_tokens = 0
        self._lower_hits = {"host": 0, "disk": 0}

    def request(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        namespace: str,
        priority: int,
        room: Room | None = None,
    ) -> Request:
        """A new request, checked. Raises `InvalidRequest`. May be called from any thread.

        In a prefill engine, one with a `room` ends with its first token.
        """
        info = self.model_info
        size, limit = len(prompt_ids), info.context_length
        check_request(prompt_ids, params, info, has_text=self._text is not None)
        if room is not None and isinstance(self.side, Departures) and params.max_tokens != 0:
            params = replace(params, max_tokens=1, min_tokens=min(1, params.min_tokens))
        return Request(
            id=request_id,
            tokens=array("i", prompt_ids),
            params=params,
            namespace=namespace,
            priority=priority,
            arrival=next(self._arrivals),
            max_len=limit if params.max_tokens is None else size + params.max_tokens,
            stop_ids=stop_ids(params, info),
            seed=params.seed if params.seed is not None else self._seeds.getrandbits(63),
            text=self._text(params) if self._text is not None else None,
            matcher=params.grammar.matcher() if params.grammar is not None else None,
            room=room if self.side is not None else None,
        )

    def announce(self, request: Request) -> None:
        """In a prefill engine: have somebody come for its KV. Raises `InvalidRequest` if its room is taken.

        May be called from any thread; `add` or `abort` must follow.
        """
        if request.room is not None and isinstance(self.side, Departures):
            request.departure = self.side.announce(request)

    def refuse(self, room: Room | None) -> None:
        """In a prefill engine: nobody need wait in this room. May be called from any thread."""
        if room is not None and isinstance(self.side, Departures):
            self.side.refuse(room)

    @property
    def busy(self) -> bool:
        """Whether `step` has something to do."""
        scheduler = self.scheduler
        return not self.paused and bool(scheduler.running or scheduler.waiting or scheduler.loading)

    def add(self, request: Request) -> None:
        """Queue a request."""
        request.begin(self._epoch)
        self._requests += 1
        self.scheduler.add(request)

    def abort(self, request: Request, message: str = "aborted") -> Output | None:
        """End a request, free its pages, and make its last output; None if it has finished already."""
        if request.finish is not None:
            return None
        return self._end(request, FinishReason("abort", message=message), [], [])

    def step(self) -> list[tuple[Request, Output]]:
        """Compute one batch; the requests that got a token, and what they got.

        With nothing to compute it waits a moment for what is being loaded.
        """
        work = self.scheduler.schedule()
        if not work:
            self.scheduler.await_load(_LOAD_WAIT_S)
            return []
        for request, _ in work:
            if not request.begun_at:
                request.begun_at = time.perf_counter()
        logits, requests = self.runner.run(work)
        samples = sample(logits, requests)
        self.scheduler.advance(work)
        return [
            (request, self._accept(request, drawn)) for request, drawn in zip(requests, samples, strict=True)
        ]

    def flush_cache(self) -> bool:
        """Forget every cached prefix, in every tier. False, and nothing happens, while requests use some."""
        self.scheduler.release_departed()
        if self.scheduler.running or self.scheduler.loading or self.scheduler.departing:
            return False
        self.scheduler.clear()
        return True

    def pause(self, *, keep_running: bool) -> None:
        """Have nothing to do until `resume`. Running requests go back into the queue unless they are kept."""
        self.paused = True
        if not keep_running:
            self.scheduler.retract()

    def resume(self) -> None:
        """End a pause."""
        self.paused = False

    def use_weights(
        self, model: Model, *, path: str | None, version: str | None, keep_kv: bool, digest: str = ""
    ) -> None:
        """Compute with `model` from here on, which must have the same architecture.

        `digest`, by which other engines know its weights, is needed with a `side` only.

        Nothing that the old weights computed is used again, and every request is computed anew; if `keep_kv`,
        running requests keep what they have, but share it no more with those that begin from here on.
        """
        info = self.model_info
        version = info.weight_version if version is None else version
        self._begin_at_side(version, digest)
        if keep_kv:
            self._epoch = f"{uuid.uuid4().hex}\0"
            self.scheduler.retract(lambda request: request.is_being_scored)  # all of it by the same weights
        else:
            self._epoch = ""
            self.scheduler.retract()
            self.scheduler.clear()
        if self.scheduler.cache.tiers is not None:
            self.scheduler.cache.tiers.clear(weights=uuid.uuid4().hex)
        if self._events is not None:
            self._events.begin(self._epoch)
        self.runner.use(model)
        self.model_info = replace(info, path=path or info.path, weight_version=version)
        for request in self.scheduler.waiting:
            request.begin(self._epoch)

    def rename_weights(self, version: str) -> None:
        """Call the weights as they are `version` from here on."""
        self._begin_at_side(version)
        self.model_info = replace(self.model_info, weight_version=version)

    def reset(self) -> None:
        """Drop all requests and everything cached: after an error nothing of it is to be trusted."""
        if (tiers := self.scheduler.cache.tiers) is not None:
            tiers.forget_loads()  # before their pages are given to others
            tiers.clear()
        if self.side is not None:
            self.side.end_all("the engine failed")
        self.scheduler = self._new_scheduler()
        if self._events is not None:
            self._events.cleared()

    def hand_over_events(self) -> None:
        """Send what has happened in the cache since the last time."""
        if self._events is not None:
            self._events.hand_over()

    def close(self) -> None:
        """Write to disk what a restart should find, as far as a few seconds allow. Nothing may follow."""
        cache = self.scheduler.cache
        if self.side is not None:
            self.side.close()
        if cache.tiers is not None:
            self.scheduler.settle()
            deadline = time.monotonic() + _SAVING_S
            cache.save(until=lambda: time.monotonic() > deadline)
            cache.tiers.close()

    def stats(self) -> EngineStats:
        """May be called from any thread; then single numbers are right, and sums nearly."""
        scheduler = self.scheduler
        cache, page = scheduler.cache, scheduler.cache.page_size
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_total=cache.pool.total * page,
            kv_used=(cache.pool.total - cache.available) * page,
            kv_cached=cache.cached * page,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            generated_tokens=self._generated_tokens,
            requests=self._requests,
            paused=self.paused,
            preemptions=scheduler.preemptions,
            evicted_tokens=cache.evicted_pages * page,
            loading=len(scheduler.loading),
            tiers=self._tier_stats(),
            remote_tokens=self._remote_tokens,
            departing=len(scheduler.departing),
            transfers=self.side.stats() if self.side is not None else None,
        )

    def _begin_at_side(self, version: str, digest: str = "") -> None:
        """Exchange no KV but that of the weights called `version` from here on."""
        if self.side is not None:
            self.scheduler.settle()
            identity = self.side.identity
            self.side.begin(replace(identity, weights=digest or identity.weights, weight_version=version))

    def _tier_stats(self) -> dict[str, TierStats]:
        cache, page = self.scheduler.cache, self.scheduler.cache.page_size
        device = TierStats(
            total=cache.pool.total * page,
            cached=cache.in_tree * page,
            hit_tokens=self._cached_tokens - sum(self._lower_hits.values()),
            evicted_tokens=cache.evicted_pages * page,
        )
        lower = cache.tiers.stats() if cache.tiers is not None else {}
        hits = self._lower_hits
        return {"device": device} | {n: replace(tier, hit_tokens=hits[n]) for n, tier in lower.items()}

    def _accept(self, request: Request, drawn: Sample) -> Output:
        """Append a sampled token to its request, and see whether that ends it."""
        if not request.completion_tokens:
            request.first_token_at = time.perf_counter()
            self._prompt_tokens += request.prompt_len
            self._cached_tokens += request.cached_tokens
            self._remote_tokens += request.remote_tokens
            self._lower_hits["host"] += request.host_tokens
            self._lower_hits["disk"] += request.disk_tokens
        if len(request.tokens) >= request.max_len:  # max_tokens is 0: only the prompt was wanted
            return self._end(request, FinishReason("length"), [], [])
        if drawn.failure:
            return self._end(request, FinishReason("abort", message=drawn.failure), [], [])
        token = drawn.token_id
        version = self.model_info.weight_version
        if not request.weight_changes or request.weight_changes[-1][1] != version:
            request.weight_changes += ((request.completion_tokens, version),)
        request.tokens.append(token)
        self._generated_tokens += 1
        logprobs = [drawn.logprob] if drawn.logprob is not None else []
        finish, text = None, ""
        if token in request.stop_ids:
            finish = FinishReason("stop", token)
        elif request.matcher is not None:
            request.matcher.accept(token)
            if request.matcher.finished:
                finish = FinishReason("stop")
        ended_by_token = finish is not None and finish.matched is not None
        if request.text is not None and (not ended_by_token or request.params.include_stop):
            text = request.text.push([token])
            if request.text.matched is not None:
                finish = FinishReason("stop", request.text.matched)
        if finish is None and len(request.tokens) >= request.max_len:
            finish = FinishReason("length")
        if finish is not None:
            return self._end(request, finish, [token], logprobs, text)
        return self._output(request, [token], logprobs, text)

    def _end(
        self,
        request: Request,
        finish: FinishReason,
        token_ids: list[int],
        logprobs: list[TokenLogprob],
        text: str = "",
    ) -> Output:
        request.finish = finish
        request.ended_at = time.perf_counter()
        if isinstance(self.side, Departures):
            self.side.computed(request, time.monotonic())
        self.scheduler.finish(request)
        if request.text is not None:
            text += request.text.finish()
        return self._output(request, token_ids, logprobs, text)

    def _output(
        self, request: Request, token_ids: list[int], logprobs: list[TokenLogprob], text: str
    ) -> Output:
        prompt_logprobs, request.prompt_logprobs = request.prompt_logprobs, []
        changes = request.weight_changes
        return Output(
            request_id=request.id,
            token_ids=token_ids,
            logprobs=logprobs,
            text=text,
            finish=request.finish,
            prompt_tokens=request.prompt_len,
            cached_tokens=max(0, request.cached_tokens),
            host_tokens=request.host_tokens,
            disk_tokens=request.disk_tokens,
            remote_tokens=request.remote_tokens,
            completion_tokens=request.completion_tokens,
            weight_version=changes[-1][1] if changes else self.model_info.weight_version,
            weight_changes=changes,
            prompt_logprobs=prompt_logprobs,
        )
