"""The models that may be asked, by the published names and shapes, and the presets of sampling."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from radixway.bundled import read_text

_SERVED_INPUT, _SERVED_TOTAL = 8192, 16384
"""Lengths in tokens of what the gateway's own workers serve, which they do not tell."""


@dataclass(frozen=True, slots=True)
class ServedModelConfig:
    """A model as workers serve it."""

    name: str
    model_id: str
    max_input_length: int
    max_total_length: int
    """Tokens, the answer's included."""
    quantized: bool = False

    @property
    def compat_hash(self) -> str:
        """The name of the queue of workers that can answer for each other."""
        return make_compat_hash(self.model_id, self.max_total_length, self.max_input_length, self.quantized)

    def to_shape(self) -> dict[str, Any]:
        """The published JSON."""
        return {
            "model_id": self.model_id,
            "max_input_length": self.max_input_length,
            "max_total_length": self.max_total_length,
            "quantized": self.quantized,
        }


def make_compat_hash(model_id: str, total: int, longest_input: int, quantized: bool) -> str:
    """Return the queue's name for `model_id` and its lengths, as the published service builds it."""
    return f"{model_id}-{total}-{longest_input}-{'q' if quantized else 'f'}"


@dataclass(frozen=True, slots=True)
class SamplingPreset:
    """A way of sampling that has a name."""

    name: str
    description: str
    sampling_parameters: dict[str, Any]


@cache
def load_published() -> tuple[tuple[ServedModelConfig, ...], tuple[SamplingPreset, ...]]:
    """The 25 models and 8 presets of the published service."""
    text = read_text("chat/model_configs.json")
    known = json.loads(text)
    models = tuple(ServedModelConfig(**row) for row in known["models"])
    return models, tuple(SamplingPreset(**row) for row in known["presets"])


class ModelConfigCatalog:
    """Configured models first, then what the gateway's workers serve."""

    def __init__(
        self, configured: Iterable[ServedModelConfig], served: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """`served`: names of models that the gateway's workers answer for now."""
        self._configured = {config.name: config for config in configured}
        self._served = served
        self.pulled: Callable[[], Iterable[ServedModelConfig]] = tuple

    def list_configs(self) -> list[ServedModelConfig]:
        """Return the models that can be requested now."""
        named = {name: self._worker_config(name) for name in sorted(self._served())}
        return list((named | self._pulled_configs() | self._configured).values())

    def find_config(self, name: str) -> ServedModelConfig | None:
        """Return the model `name`, as its workers name it, or as a configured one with the same words.

        The overview's `llama-30b-sft-6` is `OA_SFT_Llama_30B_6`. None where there is none, or several.
        """
        if name in self._configured:
            return self._configured[name]
        if (pulled := self._pulled_configs().get(name)) is not None:
            return pulled
        if name in set(self._served()):
            return self._worker_config(name)
        known = self._configured.values()
        found = next((config for config in known if config.model_id == name), None)
        alike = (
            [config for config in known if _name_words(config.name) == _name_words(name)]
            if found is None
            else []
        )
        return alike[0] if len(alike) == 1 else found

    def find_name(self, config: ServedModelConfig) -> str:
        """Return the name to request a pulled model by: the first configured one of its queue, or its own."""
        known = self._configured.values()
        names = (other.name for other in known if other.compat_hash == config.compat_hash)
        return next(names, config.name)

    def _pulled_configs(self) -> dict[str, ServedModelConfig]:
        """Return pulled models except those that a configured name stands for."""
        known = {config.compat_hash for config in self._configured.values()}
        return {config.name: config for config in self.pulled() if config.compat_hash not in known}

    def _worker_config(self, name: str) -> ServedModelConfig:
        return ServedModelConfig(name, name, _SERVED_INPUT, _SERVED_TOTAL)


def build_system_prompt(parameters: dict[str, Any]) -> str:
    """Return the system message that published WorkParameters ask for; empty where they ask for none."""
    parts = [
        parameters.get("system_prompt"),
        parameters.get("user_profile") and f"The user says of themselves: {parameters['user_profile']}",
        parameters.get("user_response_instructions"),
    ]
    return "\n\n".join(part for part in parts if part)


def _name_words(name: str) -> list[str]:
    """Return the words of a model name, unordered and without `OA`."""
    return sorted(word for word in re.split("[-_]+", name.lower()) if word not in ("", "oa"))
