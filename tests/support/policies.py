"""Models of one shape with different weights, as a trainer makes them: `policy(0)`, `policy(1)`, …"""

from pathlib import Path
from typing import Any

import torch
import transformers

from support.tiny_models import random_model


class Policies:
    """Saves each version once; knows how each continues a prompt."""

    def __init__(self, directory: Path, family: str = "qwen3") -> None:
        self._directory = directory
        self._family = family
        self._models: dict[int, transformers.PreTrainedModel] = {}

    def model(self, version: int) -> Any:
        """As `transformers` runs it."""
        if version not in self._models:
            self._models[version] = random_model(self._family, seed=version)
        return self._models[version]

    def path(self, version: int) -> Path:
        """The directory it is saved in."""
        path = self._directory / f"{self._family}-{version}"
        if not path.exists():
            self.model(version).save_pretrained(path)
        return path

    def tensors(self, version: int) -> dict[str, torch.Tensor]:
        """Its tensors under their names in a checkpoint."""
        return {name: tensor.detach().clone() for name, tensor in self.model(version).named_parameters()}

    def greedy(self, version: int, tokens: list[int], count: int) -> list[int]:
        """The next `count` tokens after `tokens` by this version alone."""
        sequence = list(tokens)
        with torch.no_grad():
            for _ in range(count):
                sequence.append(int(self.model(version)(torch.tensor([sequence])).logits[0, -1].argmax()))
        return sequence[len(tokens) :]

    def assert_made_by(self, spans: list[tuple[int, int, int]], prompt: list[int], answer: list[int]) -> None:
        """Each span (version, start, end) of `answer` is what that version says after all before it."""
        assert spans[0][1] == 0 and spans[-1][2] == len(answer)
        for version, start, end in spans:
            assert answer[start:end] == self.greedy(version, prompt + answer[:start], end - start), spans
