"""Architecture and weights of a GGUF file, as llama.cpp's converters write them.

    checkpoint                        GGUF
    model.embed_tokens                token_embd
    model.layers.3.self_attn.q_proj   blk.3.attn_q      rows reordered where the architecture is `llama`
    model.layers.3.mlp.down_proj      blk.3.ffn_down
    model.norm, lm_head               output_norm, output

Tensors are dequantized as they are read, to float32 and one at a time: 1.2 s for 135 million weights.
"""

import mmap
import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from torch import Tensor

from radixway.core.gguf_file import GgufError, GgufFile, GgufTensor
from radixway.core.tokenizer.gguf_vocabulary import GgufVocabulary
from radixway.engine.architecture import ModelArchitecture, parse_architecture
from radixway.engine.errors import CheckpointError, ModelNotFoundError, UnsupportedArchitectureError

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""By `general.architecture`, the names that config.json has for them."""

_TYPES = (
    "F32",
    "F16",
    "BF16",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q4_K",
    "Q5_K",
    "Q6_K",
)
TENSOR_TYPES = {GGMLQuantizationType[name].value: GGMLQuantizationType[name] for name in _TYPES}

_ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_PARTS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
    **{f"self_attn.{part}_norm": f"attn_{part}_norm" for part in "qk"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
}
_LAYER_NAME = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")


class GgufCheckpoint:
    """The model in one GGUF file. Raises `ModelNotFoundError` if `path` is not a whole GGUF file."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = GgufFile.read(path)
        except GgufError as error:
            raise ModelNotFoundError(path, str(error)) from None
        except OSError as error:
            raise ModelNotFoundError(path, error.strerror or str(error)) from None
        self._path = path
        for name, tensor in self._file.tensors.items():
            self._check_tensor(name, tensor)

    @cached_property
    def architecture(self) -> ModelArchitecture:
        """The model's architecture. Raises `UnsupportedArchitectureError`, `CheckpointError`."""
        metadata, tensors = self._file.metadata, self._file.tensors
        name = metadata.get("general.architecture")
        if name not in ARCHITECTURES:
            message = f"{self._path}: architecture {name!r} is not supported; {', '.join(ARCHITECTURES)} are"
            raise UnsupportedArchitectureError(message)
        if metadata.get("split.count", 1) not in (0, 1):
            message = f"{self._path} is one part of several; merge them first (llama-gguf-split --merge)"
            raise UnsupportedArchitectureError(message)
        try:
            eos_token_ids = GgufVocabulary(self._file).eos_token_ids
        except GgufError as error:
            raise CheckpointError(str(error)) from None
        shape = parse_architecture(self._describe_config(name), eos_token_ids, source=str(self._path))
        first = "blk.0."
        return replace(
            shape,
            qkv_bias=f"{first}attn_q.bias" in tensors,
            output_bias=f"{first}attn_output.bias" in tensors,
            mlp_bias=f"{first}ffn_gate.bias" in tensors,
            qk_norm=f"{first}attn_q_norm.weight" in tensors,
            tied="output.weight" not in tensors,
        )

    def read_tensor(self, name: str, size: tuple[int, ...]) -> Tensor:
        """Read and dequantize the tensor that a checkpoint calls `name`. Raises `CheckpointError`."""
        stored = _stored_name(name)
        tensor = self._file.tensors.get(stored)
        if tensor is None:
            raise CheckpointError(f"{self._path} has no tensor {stored}")
        if tensor.shape != size:
            raise CheckpointError(f"{stored} in {self._path} is {tensor.shape}; its metadata says {size}")
        values = self._dequantize(tensor)
        shape = self.architecture
        if shape.name == "LlamaForCausalLM" and ".attn_q." in stored:
            return _unpermute(values, shape.heads)
        if shape.name == "LlamaForCausalLM" and ".attn_k." in stored:
            return _unpermute(values, shape.kv_heads)
        return values

    def _dequantize(self, tensor: GgufTensor) -> Tensor:
        kind = TENSOR_TYPES[tensor.type]
        stored = np.frombuffer(self._data, np.uint8, _count_bytes(tensor, kind), tensor.offset)
        values = dequantize(stored.reshape(*tensor.shape[:-1], -1), kind)
        return torch.from_numpy(values.astype(np.float32, copy=not values.flags.writeable))

    @cached_property
    def _data(self) -> mmap.mmap:
        with self._path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _check_tensor(self, name: str, tensor: GgufTensor) -> None:
        kind = TENSOR_TYPES.get(tensor.type)
        if kind is None:
            given = {member.value: member.name for member in GGMLQuantizationType}.get(
                tensor.type, tensor.type
            )
            message = f"{self._path}: {name} is of type {given}; {', '.join(_TYPES)} are supported"
            raise UnsupportedArchitectureError(message)
        block, _ = GGML_QUANT_SIZES[kind]
        if not tensor.shape or tensor.shape[-1] % block:
            raise CheckpointError(f"{self._path}: {name} is {tensor.shape}, not in rows of {block}")
        if tensor.offset + _count_bytes(tensor, kind) > self._file.num_bytes:
            raise ModelNotFoundError(self._path, f"the file is cut off: {name} is not all there")

    def _describe_config(self, name: str) -> dict[str, Any]:
        """Write the metadata as a config.json would have it."""

        def find(key: str) -> Any:
            return self._file.metadata.get(f"{name}.{key}")

        if find("expert_count"):
            raise UnsupportedArchitectureError(f"{self._path}: mixtures of experts are not supported")
        embedding = self._file.tensors.get("token_embd.weight")
        if embedding is None:
            raise CheckpointError(f"{self._path} has no tensor token_embd.weight")
        heads = find("attention.head_count")
        head_dim = find("attention.key_length") or find("rope.dimension_count")
        config = {
            "architectures": [ARCHITECTURES[name]],
            "vocab_size": embedding.shape[0],
            "hidden_size": find("embedding_length"),
            "intermediate_size": find("feed_forward_length"),
            "num_hidden_layers": find("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": find("attention.head_count_kv"),
            "head_dim": head_dim,
            "rms_norm_eps": find("attention.layer_norm_rms_epsilon"),
            "max_position_embeddings": find("context_length"),
            "rope_theta": find("rope.freq_base"),
            "rope_scaling": self._describe_rope(name),
            "use_sliding_window": bool(find("attention.sliding_window")),
        }
        if head_dim and (find("rope.dimension_count") or head_dim) != head_dim:
            config["partial_rotary_factor"] = find("rope.dimension_count") / head_dim
        return {key: value for key, value in config.items() if value is not None}

    def _describe_rope(self, name: str) -> dict[str, Any] | None:
        factors = self._file.tensors.get("rope_freqs.weight")
        if factors is not None:  # Llama 3.1: its frequencies' divisors, computed by the converter
            return {"rope_type": "factors", "factors": self._dequantize(factors).tolist()}
        scaling = {
            key.rpartition(".")[2]: value
            for key, value in self._file.metadata.items()
            if key.startswith(f"{name}.rope.scaling.")
        }
        kind = scaling.get("type", "none")
        if kind == "none":
            return None
        rope = {
            "rope_type": kind,
            "factor": scaling.get("factor"),
            "original_max_position_embeddings": scaling.get("original_context_length"),
            "beta_fast": scaling.get("yarn_beta_fast"),
            "beta_slow": scaling.get("yarn_beta_slow"),
        }
        return {key: value for key, value in rope.items() if value is not None}


def _stored_name(name: str) -> str:
    """Return GGUF's name of the checkpoint's tensor `name`."""
    if layer := _LAYER_NAME.fullmatch(name):
        return f"blk.{layer[1]}.{_PARTS[layer[2]]}.{layer[3]}"
    part, _, kind = name.rpartition(".")
    return f"{_ENDS[part]}.{kind}"


def _count_bytes(tensor: GgufTensor, kind: GGMLQuantizationType) -> int:
    block, block_bytes = GGML_QUANT_SIZES[kind]
    num_values = 1
    for size in tensor.shape:
        num_values *= size
    return num_values // block * block_bytes


def _unpermute(rows: Tensor, heads: int) -> Tensor:
    """Put the rows of queries or keys back into halves: GGUF's `llama` turns pairs (x[2i], x[2i + 1])."""
    half = rows.shape[0] // heads // 2
    return rows.view(heads, half, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)
