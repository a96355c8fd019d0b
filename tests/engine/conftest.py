"""Fixtures of the engine's tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Reference = tuple[Path, Any]


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny matrices gain nothing from more, and other tests may be running."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Reference]:
    """By name of a family: the directory a random model was saved to, and it as `transformers` runs it."""
    made: dict[str, Reference] = {}

    def make(name: str) -> Reference:
        from support.tiny_models import random_model

        if name not in made:
            model = random_model(name)
            path = tmp_path_factory.mktemp(name)
            model.save_pretrained(path)
            made[name] = path, model
        return made[name]

    return make
