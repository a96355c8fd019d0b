"""LoRA adapters merged into their model: W + alpha / r · B A (Hu et al. 2021), without peft."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radixway.semantics.encoders.base import EncoderError

if TYPE_CHECKING:
    import torch

_PREFIX = "base_model.model."
_LORA = re.compile(r"(?P<module>.+)\.lora_(?P<side>[AB])\.(default\.)?weight")


@dataclass(slots=True, frozen=True)
class LoraWeights:
    """An adapter's directory as peft writes it."""

    base: str
    """Directory or hub id of the model it was trained on."""
    scale: float
    tensors: dict[str, torch.Tensor]
    """By the names they have in the model, `.lora_A.weight` and `.lora_B.weight` behind those they change."""


def read_adapter(directory: Path) -> LoraWeights:
    """Raises EncoderError for what is no LoRA adapter, or one of a kind that cannot be merged here."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = directory / "adapter_config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_bytes())
        tensors = load_file(directory / "adapter_model.safetensors")
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
        base = str(config["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise EncoderError(f"{directory} is no LoRA adapter: {error}") from error
    for key in ("use_dora", "rank_pattern", "alpha_pattern", "fan_in_fan_out"):
        if config.get(key):
            raise EncoderError(
                f"{path}: {key} is not supported; merge the adapter with peft and use the result"
            )
    local_base = directory / base
    return LoraWeights(
        base=str(local_base) if local_base.is_dir() else base,
        scale=alpha / (rank**0.5 if config.get("use_rslora") else rank),
        tensors={name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()},
    )


def merge_adapter(adapter: LoraWeights, weights: dict[str, torch.Tensor]) -> None:
    """Change the model's `weights`, by name, in place. Raises EncoderError where the two do not fit."""
    for name, tensor in adapter.tensors.items():
        found = _LORA.fullmatch(name)
        if found is None:  # a head that was trained whole
            name = name.replace(".modules_to_save.default", "")
            _matching_weight(weights, name, tensor).copy_(tensor)
        elif found["side"] == "B":
            down = adapter.tensors[name.replace(".lora_B.", ".lora_A.")]
            change = adapter.scale * (tensor @ down)
            _matching_weight(weights, f"{found['module']}.weight", change).add_(change)


def _matching_weight(weights: dict[str, torch.Tensor], name: str, tensor: torch.Tensor) -> torch.Tensor:
    found = weights.get(name)
    if found is None or found.shape != tensor.shape:
        raise EncoderError(f"the adapter changes {name} {tuple(tensor.shape)}, which its model does not have")
    return found
