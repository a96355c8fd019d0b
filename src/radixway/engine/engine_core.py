"""The engine without threads: requests in, one step at a time, outputs out."""

import random
import time
import uuid
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from radixway.engine.detokenizer import DetokenizedStream
from radixway.engine.disaggregation import DecodeKVManager, PrefillKVManager
from radixway.engine.engine_info import EngineStats, ModelInfo
from radixway.engine.engine_request import (
    BootstrapRoom,
    EngineRequest,
    FinishReason,
    RequestOutput,
    TokenLogprob,
)
from radixway.engine.kv_events import KVEventRecorder
from radixway.engine.model_runner import ModelRunner
from radixway.engine.sampler import SampledToken, sample_tokens
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.scheduler import Scheduler
from radixway.engine.tiers import TierStats
from radixway.engine.transformer_model import TransformerModel

_LOAD_WAIT_S = 0.005
"""Delay of aborts and new requests while only loads run."""

_SAVE_TO_DISK_TIMEOUT_S = 10.0
"""Time for an orderly stop to write the device's pages to disk."""

TextFactory = Callable[[SamplingParams], DetokenizedStream]
"""Makes the text of one request's tokens."""


class EngineCore:
    """Scheduler, model and sampler together. Called by the engine thread, unless a method says otherwise."""

    def __init__(
        self,
        model_info: ModelInfo,
        runner: ModelRunner,
        new_scheduler: Callable[[], Scheduler],
        *,
        text: TextFactory | None = None,
        seed: int = 0,
        events: KVEventRecorder | None = None,
        transfer_manager: DecodeKVManager | PrefillKVManager | None = None,
    ) -> None:
        """`transfer_manager`: this engine's side of prefill and decode in two engines, if it has one."""
        self.transfer_manager = transfer_manager
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

    def make_request(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        namespace: str,
        priority: int,
        room: BootstrapRoom | None = None,
    ) -> EngineRequest:
        """A new request, checked; may be called from any thread. Raises `InvalidRequestError`."""
        info = self.model_info
        size, limit = len(prompt_ids), info.context_length
        info.validate_request(prompt_ids, params, has_text=self._text is not None)
        if (
            room is not None
            and isinstance(self.transfer_manager, PrefillKVManager)
            and params.max_tokens != 0
        ):
            params = replace(params, max_tokens=1, min_tokens=min(1, params.min_tokens))
        return EngineRequest(
            id=request_id,
            tokens=array("i", prompt_ids),
            params=params,
            namespace=namespace,
            priority=priority,
            arrival=next(self._arrivals),
            max_len=limit if params.max_tokens is None else size + params.max_tokens,
            stop_ids=info.collect_stop_ids(params),
            seed=params.seed if params.seed is not None else self._seeds.getrandbits(63),
            text=self._text(params) if self._text is not None else None,
            matcher=params.grammar.make_matcher() if params.grammar is not None else None,
            room=room if self.transfer_manager is not None else None,
        )

    def announce_prefill(self, request: EngineRequest) -> None:
        """Let a decode engine fetch the KV of `request` (prefill engines). Raises `InvalidRequestError` if
        its room is taken.

        May be called from any thread; `add_request` or `abort_request` must follow."""
        if request.room is not None and isinstance(self.transfer_manager, PrefillKVManager):
            request.kv_sender = self.transfer_manager.announce_request(request)

    def refuse_room(self, room: BootstrapRoom | None) -> None:
        """Refuse decode engines that ask for `room` (prefill engines). May be called from any thread."""
        if room is not None and isinstance(self.transfer_manager, PrefillKVManager):
            self.transfer_manager.refuse_room(room)

    @property
    def has_work(self) -> bool:
        """True if `step` has something to do."""
        scheduler = self.scheduler
        return not self.paused and bool(scheduler.running or scheduler.waiting or scheduler.loading)

    def add_request(self, request: EngineRequest) -> None:
        """Queue a request."""
        request.start_epoch(self._epoch)
        self._requests += 1
        self.scheduler.add_request(request)

    def abort_request(self, request: EngineRequest) -> RequestOutput | None:
        """End `request`, free its pages, return its last output; None if it has finished already."""
        if request.finish is not None:
            return None
        return self._finish_request(request, FinishReason("abort", message="aborted"), [], [])

    def step(self) -> list[tuple[EngineRequest, RequestOutput]]:
        """Compute one batch; the requests that got a token, and what they got.

        With nothing to compute it waits a moment for what is being loaded.
        """
        work = self.scheduler.schedule()
        if not work:
            self.scheduler.wait_for_load(_LOAD_WAIT_S)
            return []
        for request, _ in work:
            if not request.begun_at:
                request.begun_at = time.perf_counter()
        logits, requests = self.runner.execute_model(work)
        samples = sample_tokens(logits, requests)
        self.scheduler.update_after_step(work)
        return [
            (request, self._append_token(request, drawn))
            for request, drawn in zip(requests, samples, strict=True)
        ]

    def flush_cache(self) -> bool:
        """Forget every cached prefix, in every tier. False, and nothing happens, while requests use some."""
        self.scheduler.free_sent_requests()
        if self.scheduler.running or self.scheduler.loading or self.scheduler.departing:
            return False
        self.scheduler.reset_prefix_cache()
        return True

    def pause_scheduling(self, *, keep_running: bool) -> None:
        """Have no work until `resume_scheduling`. Running requests are requeued unless `keep_running`."""
        self.paused = True
        if not keep_running:
            self.scheduler.retract_requests()

    def resume_scheduling(self) -> None:
        """End a pause."""
        self.paused = False

    def update_weights(
        self,
        model: TransformerModel,
        *,
        path: str | None,
        version: str | None,
        keep_kv: bool,
        digest: str = "",
    ) -> None:
        """Compute with `model` from here on, which must have the same architecture.

        `digest`, by which other engines know its weights, is needed with a transfer manager only.

        Nothing that the old weights computed is used again, and every request is recomputed; if `keep_kv`,
        running requests keep what they have, but share it no more with those that begin from here on.
        """
        info = self.model_info
        version = info.weight_version if version is None else version
        self._start_transfer_epoch(version, digest)
        if keep_kv:
            self._epoch = f"{uuid.uuid4().hex}\0"
            # What is scored is scored by the same weights, all of it.
            self.scheduler.retract_requests(lambda request: request.is_being_scored)
        else:
            self._epoch = ""
            self.scheduler.retract_requests()
            self.scheduler.reset_prefix_cache()
        if self.scheduler.cache.tiers is not None:
            self.scheduler.cache.tiers.clear_tiers(weights=uuid.uuid4().hex)
        if self._events is not None:
            self._events.start_epoch(self._epoch)
        self.runner.model = model
        self.model_info = replace(info, path=path or info.path, weight_version=version)
        for request in self.scheduler.waiting:
            request.start_epoch(self._epoch)

    def set_weight_version(self, version: str) -> None:
        """Name the current weights `version` from here on."""
        self._start_transfer_epoch(version)
        self.model_info = replace(self.model_info, weight_version=version)

    def reset_state(self) -> None:
        """Drop all requests and everything cached: after an error nothing of it is to be trusted."""
        if (tiers := self.scheduler.cache.tiers) is not None:
            tiers.discard_loads()  # before their pages are given to others
            tiers.clear_tiers()
        if self.transfer_manager is not None:
            self.transfer_manager.abort_all_transfers("the engine failed")
        self.scheduler = self._new_scheduler()
        if self._events is not None:
            self._events.on_cleared()

    def flush_events(self) -> None:
        """Send what has happened in the cache since the last time."""
        if self._events is not None:
            self._events.flush_step()

    def shutdown(self) -> None:
        """Write to disk what a restart should find, as far as a few seconds allow. Nothing may follow."""
        cache = self.scheduler.cache
        if self.transfer_manager is not None:
            self.transfer_manager.shutdown()
        if cache.tiers is not None:
            self.scheduler.settle_loads()
            deadline = time.monotonic() + _SAVE_TO_DISK_TIMEOUT_S
            cache.save_to_disk(until=lambda: time.monotonic() > deadline)
            cache.tiers.shutdown()

    def stats(self) -> EngineStats:
        """May be called from any thread; then single numbers are right, and sums nearly."""
        scheduler = self.scheduler
        cache, page = scheduler.cache, scheduler.cache.page_size
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_total=cache.pool.total * page,
            kv_used=(cache.pool.total - cache.num_available_pages) * page,
            kv_cached=cache.num_cached_pages * page,
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
            transfers=self.transfer_manager.stats() if self.transfer_manager is not None else None,
        )

    def _start_transfer_epoch(self, version: str, digest: str = "") -> None:
        """Exchange no KV but that of weights `version` from now on."""
        if self.transfer_manager is not None:
            self.scheduler.settle_loads()
            identity = self.transfer_manager.identity
            weights = digest or identity.weights
            self.transfer_manager.start_identity(replace(identity, weights=weights, weight_version=version))

    def _tier_stats(self) -> dict[str, TierStats]:
        cache, page = self.scheduler.cache, self.scheduler.cache.page_size
        device = TierStats(
            total=cache.pool.total * page,
            cached=cache.num_tree_pages * page,
            hit_tokens=self._cached_tokens - sum(self._lower_hits.values()),
            evicted_tokens=cache.evicted_pages * page,
        )
        lower = cache.tiers.stats() if cache.tiers is not None else {}
        hits = self._lower_hits
        return {"device": device} | {n: replace(tier, hit_tokens=hits[n]) for n, tier in lower.items()}

    def _append_token(self, request: EngineRequest, drawn: SampledToken) -> RequestOutput:
        if not request.completion_tokens:
            request.first_token_at = time.perf_counter()
            self._prompt_tokens += request.prompt_len
            self._cached_tokens += request.cached_tokens
            self._remote_tokens += request.remote_tokens
            self._lower_hits["host"] += request.host_tokens
            self._lower_hits["disk"] += request.disk_tokens
        if len(request.tokens) >= request.max_len:  # max_tokens is 0: only the prompt was wanted
            return self._finish_request(request, FinishReason("length"), [], [])
        if drawn.failure:
            return self._finish_request(request, FinishReason("abort", message=drawn.failure), [], [])
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
            request.matcher.accept_token(token)
            if request.matcher.is_finished:
                finish = FinishReason("stop")
        ended_by_token = finish is not None and finish.matched is not None
        if request.text is not None and (not ended_by_token or request.params.include_stop):
            text = request.text.feed([token])
            if request.text.matched_stop is not None:
                finish = FinishReason("stop", request.text.matched_stop)
        if finish is None and len(request.tokens) >= request.max_len:
            finish = FinishReason("length")
        if finish is not None:
            return self._finish_request(request, finish, [token], logprobs, text)
        return self._make_output(request, [token], logprobs, text)

    def _finish_request(
        self,
        request: EngineRequest,
        finish: FinishReason,
        token_ids: list[int],
        logprobs: list[TokenLogprob],
        text: str = "",
    ) -> RequestOutput:
        request.finish = finish
        request.ended_at = time.perf_counter()
        if isinstance(self.transfer_manager, PrefillKVManager):
            self.transfer_manager.mark_finished(request, time.monotonic())
        self.scheduler.finish_request(request)
        if request.text is not None:
            text += request.text.flush()
        return self._make_output(request, token_ids, logprobs, text)

    def _make_output(
        self, request: EngineRequest, token_ids: list[int], logprobs: list[TokenLogprob], text: str
    ) -> RequestOutput:
        prompt_logprobs, request.prompt_logprobs = request.prompt_logprobs, []
        changes = request.weight_changes
        return RequestOutput(
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
