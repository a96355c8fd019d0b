"""A running model's weights under the names they have in a checkpoint: read one, replace some, replace all.

    checkpoint                                model
    self_attn.{q,k,v}_proj  ─ rows of ─►  Layer.qkv       one product, packed where that is faster
    mlp.{gate,up}_proj      ─ rows of ─►  Layer.gate_up

New weights are a new `TransformerModel`, made beside the old one; the engine changes over between two steps,
or, if anything is wrong with them, not at all.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from radixway.engine.architecture import ModelArchitecture
from radixway.engine.errors import InvalidWeightsError
from radixway.engine.linear_layers import PackedLinear
from radixway.engine.model_loader import (
    DummyTensors,
    find_architecture,
    find_model,
    open_checkpoint,
    reload_model,
)
from radixway.engine.transformer_model import DecoderLayer, TransformerModel

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
_NOT_WEIGHTS = {"name", "context_length", "eos_token_ids", "initializer_range"}
"""Fields that may differ between configurations of the same weights."""


@dataclass(slots=True)
class DiskWeights:
    """Replaces all weights, from a directory, a GGUF file or a hub id. `dummy` takes random ones."""

    path: str | None
    load_format: Literal["auto", "safetensors", "dummy"] = "auto"

    def load_weights(self, model: TransformerModel) -> TransformerModel:
        """Load them into a copy of `model`. Raises `InvalidWeightsError` for another architecture."""
        path = find_model(self.path or "")
        # a trainer may write nothing but the weights
        if path.is_file() or (path / "config.json").exists():
            _check_same_architecture(find_architecture(path), model.architecture)
        is_dummy = self.load_format == "dummy"
        source = DummyTensors(model.architecture) if is_dummy else open_checkpoint(path)
        self.path = str(path)
        return reload_model(source, model)


@dataclass(slots=True)
class TensorWeights:
    """Some tensors by their checkpoint names; others stay."""

    tensors: Mapping[str, Tensor]
    path: str | None = None

    def load_weights(self, model: TransformerModel) -> TransformerModel:
        """Replace these tensors in a copy of `model`. Raises `InvalidWeightsError` if they do not fit."""
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.tensors.items():
            if tensors.setdefault(_full_name(name), tensor) is not tensor:
                raise InvalidWeightsError(f"{_full_name(name)} comes twice, with and without its `model.`")
        if model.architecture.tied and "lm_head.weight" in tensors:
            head, embedding = tensors.pop("lm_head.weight"), tensors.get("model.embed_tokens.weight")
            if embedding is None or not torch.equal(head, embedding):
                message = (
                    "lm_head.weight: here it is model.embed_tokens.weight; send that, or both, but equal"
                )
                raise InvalidWeightsError(message)
        overlay = _OverlaySource(tensors, model)
        reloaded = reload_model(overlay, model, lambda prefix: any(n.startswith(prefix) for n in tensors))
        if unknown := tensors.keys() - overlay.used:
            raise InvalidWeightsError(f"{min(unknown)}: the model has no such tensor")
        return reloaded


WeightUpdate: TypeAlias = DiskWeights | TensorWeights
"""New weights; `path` is the directory they are from, if they are all from one."""


def read_tensors(data: bytes) -> dict[str, Tensor]:
    """Read the tensors of the safetensors file `data`. Raises `InvalidWeightsError`."""
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:  # the last: a shape beyond 64 bits
        kind = "a pickle, which could run code; send" if data[:1] == b"\x80" else "not"
        raise InvalidWeightsError(f"this is {kind} a safetensors file ({error})") from None


def merge_tensors(parts: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Merge the tensors of several files. Raises `InvalidWeightsError` for a name in two `parts`."""
    tensors: dict[str, Tensor] = {}
    for part in parts:
        if twice := tensors.keys() & part.keys():
            raise InvalidWeightsError(f"{min(twice)} comes twice")
        tensors.update(part)
    return tensors


def find_weight(model: TransformerModel, name: str) -> Tensor | None:
    """The tensor that a checkpoint of `model` calls `name`; None if it has none of that name."""
    match _full_name(name):
        case "model.embed_tokens.weight":
            return model.embedding
        case "model.norm.weight":
            return model.norm
        case "lm_head.weight":
            return model.head.weight
        case full:
            found = _LAYER.fullmatch(full)
    if found is None or int(found[1]) >= len(model.layers):
        return None
    return _layer_tensor(model.layers[int(found[1])], model.architecture, found[2], found[3])


class _OverlaySource:
    """A model source in which some tensors are new."""

    def __init__(self, tensors: Mapping[str, Tensor], model: TransformerModel) -> None:
        self._tensors = tensors
        self._model = model
        self.used: set[str] = set()
        """Names of the requested tensors."""

    def read_tensor(self, name: str, size: tuple[int, ...]) -> Tensor:
        """Read `name`, new or from the model. Raises `InvalidWeightsError` if a new one is not of `size`."""
        given = self._tensors.get(name)
        if given is None:
            present = find_weight(self._model, name)
            assert present is not None, f"the model has no {name}"
            return present
        if tuple(given.shape) != size:
            raise InvalidWeightsError(f"{name} is {tuple(given.shape)}; the model's is {size}")
        if given.dtype not in FLOATS:
            raise InvalidWeightsError(f"{name} is {given.dtype}, not one of {', '.join(map(str, FLOATS))}")
        self.used.add(name)
        return given


def _layer_tensor(layer: DecoderLayer, shape: ModelArchitecture, part: str, kind: str) -> Tensor | None:
    """Return a layer's tensor by its name there, such as `self_attn.q_proj` and `weight`."""
    q, kv, inner = shape.q_size, shape.kv_size, shape.intermediate_size
    rows: dict[str, tuple[PackedLinear, int, int]] = {
        "self_attn.q_proj": (layer.qkv, 0, q),
        "self_attn.k_proj": (layer.qkv, q, q + kv),
        "self_attn.v_proj": (layer.qkv, q + kv, q + 2 * kv),
        "self_attn.o_proj": (layer.output, 0, shape.hidden_size),
        "mlp.gate_proj": (layer.gate_up, 0, inner),
        "mlp.up_proj": (layer.gate_up, inner, 2 * inner),
        "mlp.down_proj": (layer.down, 0, shape.hidden_size),
    }
    if part in rows:
        linear, start, stop = rows[part]
        stacked = linear.weight if kind == "weight" else linear.bias
        return None if stacked is None else stacked[start:stop]
    norms = {"input_layernorm": layer.input_norm, "post_attention_layernorm": layer.post_norm}
    if layer.qk_norm is not None:
        norms |= {"self_attn.q_norm": layer.qk_norm[0], "self_attn.k_norm": layer.qk_norm[-1]}
    return norms.get(part) if kind == "weight" else None


def _full_name(name: str) -> str:
    """Return the full name: base models, and some trainers, leave out `model.`."""
    return name if name.startswith(("model.", "lm_head.")) else f"model.{name}"


def _check_same_architecture(new: ModelArchitecture, old: ModelArchitecture) -> None:
    different = [
        f"{field.name} is {getattr(new, field.name)!r} and not {getattr(old, field.name)!r}"
        for field in fields(ModelArchitecture)
        if field.name not in _NOT_WEIGHTS and getattr(new, field.name) != getattr(old, field.name)
    ]
    if different:
        raise InvalidWeightsError(f"these are the weights of another architecture: {'; '.join(different)}")
