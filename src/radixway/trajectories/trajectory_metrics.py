"""Metrics of the trajectory store for `/metrics`."""

from __future__ import annotations

from collections.abc import Callable

from radixway.core.telemetry import LabeledCounter, MetricsRegistry
from radixway.trajectories.store import TrajectoryStore
from radixway.trajectories.trie_registry import TrieRegistry


class TrajectoryMetrics:
    """Of all models' stores together."""

    def __init__(self, metrics: MetricsRegistry, tries: TrieRegistry) -> None:
        lookups = LabeledCounter(
            "radixway_trajectory_lookups",
            "Prompts looked up in the store, by whether it knew any",
            ("result",),
        )
        prompts = LabeledCounter("radixway_trajectory_prompt_tokens", "Tokens of prompts that were looked up")
        reused = LabeledCounter(
            "radixway_trajectory_reused_tokens", "Of those, tokens that the store knew already"
        )
        self._hits, self._misses = lookups.with_labels("hit"), lookups.with_labels("miss")
        self._prompt_tokens, self._reused_tokens = prompts.with_labels(), reused.with_labels()
        for each in (lookups, prompts, reused):
            metrics.register(each)

        def of_all(value: Callable[[TrajectoryStore], float]) -> Callable[[], float]:
            return lambda: sum(map(value, tries.stores_by_model().values()))

        gauge = metrics.gauge
        gauge("radixway_trajectory_entries", "Entries of the store", of_all(lambda store: store.nodes))
        gauge("radixway_trajectory_tokens", "Tokens in the store", of_all(lambda store: store.tokens))
        gauge("radixway_trajectory_bytes", "What it takes of memory", of_all(lambda store: store.nbytes))

    def count_lookup(self, known: int, tokens: int) -> None:
        """A prompt of so many tokens, of which so many were known."""
        (self._hits if known else self._misses).value += 1
        self._prompt_tokens.value += tokens
        self._reused_tokens.value += known
