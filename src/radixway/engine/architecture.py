"""What config.json says about a model, reduced to the few numbers and flags that three families differ in.

| family | query/key/value bias | query/key norm | head_dim |
|---|---|---|---|
| Llama | `attention_bias` (output projection too) | no | `hidden_size / heads` unless given |
| Qwen2 | yes | no | `hidden_size / heads` |
| Qwen3 | `attention_bias` (output projection too) | yes | 128 unless given |
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radixway.engine.errors import ModelNotFound, UnsupportedArchitecture

FAMILIES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}


@dataclass(slots=True, frozen=True, kw_only=True)
class Architecture:
    """The shape of a decoder-only transformer: RMSNorm, rotary positions, grouped queries, gated SiLU."""

    name: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    tied: bool
    """The output projection is the embedding."""
    context_length: int
    """Positions the model was made for (`max_position_embeddings`), in tokens."""
    rope: Mapping[str, Any]
    """`rope_type`, `rope_theta` and the parameters of that type, as `rope.frequencies` reads them."""
    eos_token_ids: frozenset[int]
    initializer_range: float

    @property
    def q_size(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def parameters(self) -> int:
        """Number of weights."""
        attention = self.hidden_size * (2 * self.q_size + 2 * self.kv_size)
        mlp = 3 * self.hidden_size * self.intermediate_size
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied else 2)
        small = self.qkv_bias * (self.q_size + 2 * self.kv_size) + self.output_bias * self.hidden_size
        small += self.mlp_bias * (2 * self.intermediate_size + self.hidden_size)
        small += self.qk_norm * 2 * self.head_dim + 2 * self.hidden_size
        return embeddings + self.hidden_size + self.layers * (attention + mlp + small)


def read_architecture(directory: Path) -> Architecture:
    """The architecture in `directory`'s config.json (and end-of-sequence ids of generation_config.json).

    Raises `ModelNotFound` without a readable config.json, `UnsupportedArchitecture` for other kinds of model.
    """
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelNotFound(directory, "it has no config.json") from None
    except ValueError as error:
        raise ModelNotFound(directory, f"config.json is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ModelNotFound(directory, "config.json is not an object")
    eos = _token_ids(config.get("eos_token_id"))
    with contextlib.suppress(FileNotFoundError, ValueError, AttributeError):  # an optional file
        generation = json.loads((directory / "generation_config.json").read_text(encoding="utf-8"))
        eos |= _token_ids(generation.get("eos_token_id"))
    try:
        return parse_architecture(config, eos)
    except KeyError as key:
        raise UnsupportedArchitecture(f"{path} has no {key}") from None


def parse_architecture(config: Mapping[str, Any], eos_token_ids: frozenset[int]) -> Architecture:
    """The architecture that a config.json describes; keys it leaves out take the family's defaults."""
    name = (config.get("architectures") or ["unnamed"])[0]
    family = FAMILIES.get(name)
    if family is None:
        raise UnsupportedArchitecture(f"{name} is not supported; the engine runs {', '.join(FAMILIES)}")
    if (act := config.get("hidden_act", "silu")) != "silu":
        raise UnsupportedArchitecture(f"hidden_act {act!r} is not supported; the engine knows 'silu'")
    windowed = config.get("use_sliding_window") or "sliding_attention" in (config.get("layer_types") or ())
    if windowed:
        raise UnsupportedArchitecture(
            "sliding-window attention is not supported; it would give wrong answers"
        )
    if config.get("quantization_config"):
        raise UnsupportedArchitecture("quantized checkpoints are not supported; use the unquantized weights")

    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    bias = bool(config.get("attention_bias", False))
    head_dim = config.get("head_dim") or (128 if family == "qwen3" else hidden // heads)
    kv_heads = config.get("num_key_value_heads") or heads
    if heads % kv_heads or head_dim % 2:
        raise UnsupportedArchitecture(
            f"{heads} heads over {kv_heads} KV heads of {head_dim} is not supported"
        )
    rope, context = _rope(config)
    return Architecture(
        name=name,
        vocab_size=config["vocab_size"],
        hidden_size=hidden,
        intermediate_size=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        norm_eps=config.get("rms_norm_eps", 1e-6),
        qkv_bias=bias or family == "qwen2",
        output_bias=bias and family != "qwen2",
        mlp_bias=bool(config.get("mlp_bias", False)) and family == "llama",
        qk_norm=family == "qwen3",
        tied=bool(config.get("tie_word_embeddings", False)),
        context_length=context,
        rope=rope,
        eos_token_ids=eos_token_ids,
        initializer_range=config.get("initializer_range", 0.02),
    )


def _rope(config: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Rotary parameters from `rope_parameters` (transformers 5) or `rope_scaling` (before), and the context
    they make: `max_position_embeddings`, unless that is the length before stretching."""
    context = config.get("max_position_embeddings") or 2048
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    rope["rope_type"] = rope.get("rope_type") or rope.get("type") or "default"
    rope.setdefault("rope_theta", config.get("rope_theta") or 10000.0)
    original = config.get("original_max_position_embeddings") or context
    rope.setdefault("original_max_position_embeddings", original)
    if rope["rope_type"] in ("yarn", "linear"):
        context = max(context, int(rope["original_max_position_embeddings"] * rope.get("factor", 1)))
    if rope.get("partial_rotary_factor", config.get("partial_rotary_factor") or 1.0) != 1.0:
        raise UnsupportedArchitecture("partial rotary embeddings are not supported")
    return rope, context


def _token_ids(value: object) -> frozenset[int]:
    """`eos_token_id` may be absent, null, an id or a list of ids."""
    ids = value if isinstance(value, list) else [value]
    return frozenset(i for i in ids if isinstance(i, int))
