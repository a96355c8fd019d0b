"""The recorded trajectories of a gateway: one trie for each model it serves, and their metrics."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from radixway.core.config import TrajectoriesConfig
from radixway.core.pipeline import TokenizerOf
from radixway.core.telemetry import LabeledCounter, MetricsRegistry
from radixway.trajectories.memory_budget import MemoryBudget
from radixway.trajectories.path_owners import PathOwners
from radixway.trajectories.store import TrajectoryStore
from radixway.trajectories.string_radix_trie import StringRadixTrie

_MAX_MODELS = 64


class TrieRegistry:
    """Finds a model's trie, made on first use. Together they stay below `max_bytes`.

    There are 64 at most, for under one tokenizer for all models any name is one: an empty one goes first,
    else the one used longest ago.
    """

    def __init__(self, section: TrajectoriesConfig, tokenizer_of: TokenizerOf) -> None:
        self._section = section
        self.memory = MemoryBudget(section.max_bytes)
        self._tokenizer_of = tokenizer_of
        self._tries: OrderedDict[str, StringRadixTrie] = OrderedDict()
        """Least recently used first."""
        self.owners = PathOwners()

    async def trie_for(self, model: str | None) -> StringRadixTrie:
        """The trie of `model`, or of what the workers serve if it is None."""
        name, tokenizer = await self._tokenizer_of(model)
        trie = self._tries.get(name)
        if trie is None or (trie.tokenizer is None and tokenizer is not None):
            trie = self._tries[name] = StringRadixTrie(
                self._section.max_cache_size,
                self._section.gc_threshold_k,
                tokenizer,
                memory=self.memory,
            )
        self._tries.move_to_end(name)
        if len(self._tries) > _MAX_MODELS:
            older = [other for other in self._tries if other != name]
            del self._tries[next((other for other in older if not self._tries[other].store.tokens), older[0])]
        return trie

    def stores_by_model(self) -> dict[str, TrajectoryStore]:
        """The stores by their models' names."""
        return {name: trie.store for name, trie in self._tries.items()}

    def get_stats(self) -> dict[str, Any]:
        """The figures of all tries, added up."""
        rows = [trie.get_stats() for trie in self._tries.values()]
        if not rows:
            rows = [StringRadixTrie(self._section.max_cache_size, self._section.gc_threshold_k).get_stats()]
        total = dict(rows[0])
        for name in ("total_entries", "cache_hits", "cache_misses", "cur_cache_size", "cache_size_mb"):
            total[name] = sum(stats[name] for stats in rows)
        lookups = total["cache_hits"] + total["cache_misses"]
        total["hit_rate"] = total["cache_hits"] / lookups if lookups else 0.0
        return total


class TrajectoryMetrics:
    """Metrics of all models' stores together."""

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
        """Count the lookup of a prompt of so many `tokens`, of which `known` were known."""
        (self._hits if known else self._misses).value += 1
        self._prompt_tokens.value += tokens
        self._reused_tokens.value += known
