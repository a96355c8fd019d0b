"""Prefix affinity: Ray Serve's three tiers over a tree of the texts that each worker has seen.

Source: Ray's guide to `PrefixCacheAffinityRouter` and its `prefix_aware_router.py`. What differs: the memory
is bounded even without `do_eviction`, an empty prompt is no error, and the smallest cache is looked for among
the candidates alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from radixway.core.config import PrefixAffinityPolicyConfig
from radixway.core.radix import RadixTree
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.simple import power_of_two
from radixway.routing.routing_request import RoutingRequest
from radixway.routing.worker import Worker


class _EmptyPayload:
    def split(self, at: int) -> tuple[_EmptyPayload, _EmptyPayload]:
        return self, self

    def join(self, more: _EmptyPayload) -> _EmptyPayload:
        return self


_NOTHING = _EmptyPayload()
_NO_TREE: RadixTree[str, _EmptyPayload] = RadixTree()


class PrefixAffinity(Policy):
    """Balanced queues: who has seen the text, else who has the least KV in use. Unbalanced: power of two."""

    name = "prefix_affinity"
    reads_text = True

    def __init__(self, config: PrefixAffinityPolicyConfig, rng: Random) -> None:
        self._config = config
        self._rng = rng
        self._seen: dict[Worker, RadixTree[str, _EmptyPayload]] = {}
        self._next_eviction = 0.0

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        queues = [worker.load.all_requests for worker in candidates]
        scores = Scores([], ("requests", "matched_chars", "kept_chars"))
        if max(queues) - min(queues) > self._config.imbalanced_threshold:
            scores.reason = "imbalanced"
        elif not request.text or not self._seen:
            scores.reason = "no prefix data"
        if scores.reason is not None:
            scores.costs = power_of_two(self._rng, candidates, range(len(candidates)))
            scores.parts = [(queue, 0, 0) for queue in queues]
            return scores
        trees = [self._seen.get(worker, _NO_TREE) for worker in candidates]
        matched = [tree.match(request.text, touch=False).length for tree in trees]
        sizes = [tree.size for tree in trees]
        best, smallest = max(matched), min(sizes)
        if best / len(request.text) >= self._config.match_rate_threshold:
            scores.reason = "prefix"
            among = [index for index, chars in enumerate(matched) if chars == best]
        else:
            scores.reason = "smallest cache"
            among = [index for index, chars in enumerate(sizes) if chars == smallest]
        scores.costs = power_of_two(self._rng, candidates, among)
        scores.parts = list(zip(queues, matched, sizes, strict=True))
        return scores

    def routed(self, request: RoutingRequest, worker: Worker, now: float) -> None:
        if request.text:
            tree = self._seen.setdefault(worker, RadixTree())
            tree.insert(request.text, _NOTHING)
            tree.evict(tree.size - self._config.max_chars)
        if self._config.do_eviction and now >= self._next_eviction:
            self._next_eviction = now + self._config.eviction_interval_secs
            for tree in self._seen.values():
                if tree.size > self._config.eviction_threshold_chars:
                    tree.evict(tree.size - self._config.eviction_target_chars)

    def forget_texts(self) -> int:
        count = sum(len(tree) for tree in self._seen.values())
        self._seen.clear()
        return count

    def forget(self, worker: Worker) -> None:
        self._seen.pop(worker, None)
