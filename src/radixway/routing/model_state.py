"""A model's workers taken together: whether they can answer, and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radixway.routing.registry import WorkerRegistry
from radixway.routing.worker import Worker


@dataclass(frozen=True, slots=True)
class ModelWorkers:
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


def find_model_state(registry: WorkerRegistry, model: str, now: float) -> ModelWorkers | None:
    """The model's workers; None for a model that no known worker serves."""
    candidates = registry.candidates(model)
    if not candidates and model not in registry.known_models():
        return None
    return ModelWorkers(candidates, now)
