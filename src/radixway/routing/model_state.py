"""A model's workers taken together: whether they can answer, and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radixway.routing.registry import Registry
from radixway.routing.worker import Worker


@dataclass(frozen=True, slots=True)
class WorkersOfModel:
    """`pipeline.ModelState` of the registry's workers."""

    candidates: Sequence[Worker]
    now: float
    """Monotonic seconds, by the ledger's clock."""

    @property
    def workers(self) -> int:
        return len(self.candidates)

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        """The queue of prefills and one's own, at the worker where both together are shortest; 0 for none."""
        return min(
            (
                worker.load.queue_s(self.now) + worker.load.rate.prefill_s(prompt_tokens)
                for worker in self.candidates
            ),
            default=0.0,
        )


def state_of_model(registry: Registry, model: str, now: float) -> WorkersOfModel | None:
    """The model's workers; None for a model that no known worker serves."""
    candidates = registry.candidates(model)
    if not candidates and model not in registry.models():
        return None
    return WorkersOfModel(candidates, now)
