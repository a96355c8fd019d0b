"""What rooms above routing may know of a model's workers; `app.py` says who tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class ModelState(Protocol):
    """The workers of one model, now."""

    @property
    def workers(self) -> int:
        """How many can answer."""
        ...

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        """Seconds until the first token at the worker that has it soonest: what waits there, and how fast it
        was measured to be."""
        ...


ModelStates = Callable[[str], ModelState | None]
"""By the model's name; None where no worker is known that serves it."""
