"""GGUF files of tiny models, written by the `gguf` package as llama.cpp's converters write them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from safetensors.numpy import load_file, save_file
from tokenizers import pre_tokenizers

from radixway.engine.transformer_model import compute_frequencies

Rows = np.ndarray[Any, Any]
BYTE_TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|im_start|>", "<|im_end|>", "th", "the"]

_NAMES = {
    "model.embed_tokens.": "token_embd.",
    "model.norm.": "output_norm.",
    "lm_head.": "output.",
    "model.layers.": "blk.",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.o_proj": "attn_output",
    "self_attn.": "attn_",
    "mlp.": "ffn_",
    "_proj": "",
}
_SCALE_BYTES = {"Q4_K": (0, 4), "Q5_K": (0, 4), "Q6_K": (208, 210)}
"""Where a block of each type that the package cannot quantize to has its scales, in float16."""


def write_gguf(directory: Path, path: Path, kind: str = "F32", **metadata: Any) -> Path:
    """Write the model in `directory` to `path`, its matrices as `kind`, and what that leaves of them back to
    `directory`. `metadata` replaces keys, or leaves them out where a value is None.
    """
    config = json.loads((directory / "config.json").read_text())
    family = config["model_type"]
    tensors: dict[str, Rows] = load_file(directory / "model.safetensors")
    writer = gguf.GGUFWriter(path, metadata.pop("architecture", family))
    for key, value in (_describe(config, family) | _describe_text() | metadata).items():
        if value is not None:
            _add_value(writer, key, value)
    for name, values in tensors.items():
        if values.ndim > 1:
            stored, tensors[name] = quantize_rows(values, kind)
            permuted = _permute(name, stored, config) if family == "llama" else stored
            writer.add_tensor(_stored_name(name), permuted, raw_dtype=GGMLQuantizationType[kind])
        else:
            permuted = _permute(name, values, config) if family == "llama" else values
            writer.add_tensor(_stored_name(name), permuted.astype(np.float32))
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") == "llama3":
        dim = config["hidden_size"] // config["num_attention_heads"]
        plain, _ = compute_frequencies({**rope, "rope_type": "default"}, dim)
        scaled, _ = compute_frequencies(rope, dim)
        writer.add_tensor("rope_freqs.weight", (plain / scaled).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(tensors, directory / "model.safetensors")
    return path


def quantize_rows(values: Rows, kind: str) -> tuple[Rows, Rows]:
    """Return `values` as `kind` stores them, and the float32 values that are left of them.

    The K-quants, which the package cannot write, get blocks of random bits with small scales.
    """
    member = GGMLQuantizationType[kind]
    if kind in _SCALE_BYTES:
        block, size = GGML_QUANT_SIZES[member]
        blocks = np.random.default_rng(values.size).integers(0, 256, (values.size // block, size), np.uint8)
        start, end = _SCALE_BYTES[kind]
        scales = np.full((len(blocks), (end - start) // 2), 0.0003, np.float16)
        blocks[:, start:end] = scales.view(np.uint8)
        stored = blocks.reshape(len(values), -1)
    else:
        stored = gguf.quantize(values.astype(np.float32), member)
    return stored, np.array(gguf.dequantize(stored, member), np.float32)


def decode_k_block(block: bytes, kind: str) -> list[float]:
    """Decode the 256 values of one K-quant block, a value at a time, by ggml's description of the layout."""
    if kind == "Q6_K":
        low, high, scales, d = (
            block[:128],
            block[128:192],
            np.frombuffer(block[192:208], np.int8),
            block[208:],
        )
        values = []
        for i in range(256):
            half, rest = divmod(i, 128)
            quarter, column = divmod(rest, 32)
            nibble = low[64 * half + 32 * (quarter % 2) + column] >> (4 * (quarter // 2)) & 15
            pair = high[32 * half + column] >> (2 * quarter) & 3
            values.append(_unpack_half(d) * int(scales[i // 16]) * (nibble + 16 * pair - 32))
        return values
    d, dmin, packed = _unpack_half(block[:2]), _unpack_half(block[2:4]), block[4:16]
    fifth, quants = (block[16:48], block[48:]) if kind == "Q5_K" else (bytes(32), block[16:])
    values = []
    for i in range(256):
        group, column = divmod(i, 32)
        if group < 4:
            scale, least = packed[group] & 63, packed[group + 4] & 63
        else:
            scale = packed[group + 4] & 15 | packed[group - 4] >> 6 << 4
            least = packed[group + 4] >> 4 | packed[group] >> 6 << 4
        nibble = quants[32 * (group // 2) + column] >> (4 * (group % 2)) & 15
        values.append(d * scale * (nibble + 16 * (fifth[column] >> group & 1)) - dmin * least)
    return values


def _unpack_half(content: bytes) -> float:
    return float(np.frombuffer(content, np.float16)[0])


def _stored_name(name: str) -> str:
    for ours, theirs in _NAMES.items():
        name = name.replace(ours, theirs)
    return name


def _permute(name: str, rows: Rows, config: Mapping[str, Any]) -> Rows:
    """Turn halves into pairs, as the converter does for `llama`."""
    for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
        if part in name:
            split = rows.reshape(config[heads], 2, rows.shape[0] // config[heads] // 2, *rows.shape[1:])
            return np.ascontiguousarray(split.swapaxes(1, 2).reshape(rows.shape))
    return rows


def _describe(config: Mapping[str, Any], family: str) -> dict[str, Any]:
    rope = config["rope_parameters"]
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    described = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": head_dim,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": float(rope["rope_theta"]),
        "rope.dimension_count": head_dim,
    }
    if rope["rope_type"] in ("linear", "yarn"):
        described["rope.scaling.type"] = rope["rope_type"]
        described["rope.scaling.factor"] = float(rope["factor"])
    if rope["rope_type"] == "yarn":
        described["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    return {f"{family}.{key}": value for key, value in described.items()}


def _describe_text() -> dict[str, Any]:
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": BYTE_TOKENS,
        "tokenizer.ggml.token_type": [3 if token.startswith("<|") else 1 for token in BYTE_TOKENS],
        "tokenizer.ggml.merges": ["t h", "th e"],
        "tokenizer.ggml.eos_token_id": BYTE_TOKENS.index("<|im_end|>"),
        "tokenizer.chat_template": "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}",
    }


def _add_value(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_array(key, value)
