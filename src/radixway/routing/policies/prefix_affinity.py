"""Prefix affinity: Ray Serve's three tiers over a tree of the texts that each worker has seen.

Source: Ray's guide to `PrefixCacheAffinityRouter` and its `prefix_aware_router.py`. What differs: the memory
is bounded even without `do_eviction`, an empty prompt is no error, and the smallest cache is looked for among
the candidates alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from radixway.config import PrefixAffinityPolicy
from radixway.radix import RadixTree
from radixway.routing.policies.base import Policy, Scores, View
from radixway.routing.policies.power_of_two import power_of_two
from radixway.routing.request import RoutingRequest
from radixway.routing.worker import Worker


class _Nothing:
    """Edges of these trees carry nothing."""

    def split(self, at: int) -> tuple[_Nothing, _Nothing]:
        return self, self

    def join(self, more: _Nothing) -> _Nothing:
        return self


_NOTHING = _Nothing()


class PrefixAffinity(Policy):
    """Balanced queues: who has seen the text, else who has the least KV in use. Unbalanced: power of two."""

    name = "prefix_affinity"
    reads_text = True

    def __init__(self, config: PrefixAffinityPolicy, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._seen: dict[Worker, RadixTree[str, _Nothing]] = {}
        self._next_eviction = 0.0

    def score(self, request: RoutingRequest, candidates: Sequence[Worker], view: View) -> Scores:
        queues = [worker.load.requests for worker in candidates]
        terms = {"requests": [float(queue) for queue in queues]}
        if max(queues) - min(queues) > self._config.imbalanced_threshold:
            return Scores(power_of_two(self._rng, candidates, range(len(candidates))), terms, "imbalanced")
        if not request.text or not self._seen:
            return Scores(
                power_of_two(self._rng, candidates, range(len(candidates))), terms, "no prefix data"
            )
        matched = [self._matched(worker, request.text) for worker in candidates]
        terms["match_rate"] = [chars / len(request.text) for chars in matched]
        best = max(matched)
        if best / len(request.text) >= self._config.match_rate_threshold:
            among, reason = [index for index, chars in enumerate(matched) if chars == best], "prefix"
        else:
            kept = [self._chars(worker) for worker in candidates]
            terms["chars"] = [float(chars) for chars in kept]
            least = min(kept)
            among, reason = [index for index, chars in enumerate(kept) if chars == least], "smallest cache"
        return Scores(power_of_two(self._rng, candidates, among), terms, reason)

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

    def forget(self, worker: Worker) -> None:
        self._seen.pop(worker, None)

    def _matched(self, worker: Worker, text: str) -> int:
        tree = self._seen.get(worker)
        return tree.match(text, touch=False).length if tree is not None else 0

    def _chars(self, worker: Worker) -> int:
        tree = self._seen.get(worker)
        return tree.size if tree is not None else 0
