"""The architecture that a model's config.json describes, as the few numbers and flags in which three families
differ.

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
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.engine.errors import ModelNotFoundError, UnsupportedArchitectureError

FAMILIES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}

_Size = Annotated[int, Meta(ge=1)]
_Positive = Annotated[float, Meta(gt=0, le=1e12)]
_Base = Annotated[float, Meta(gt=1, le=1e12)]


class _RopeParameters(msgspec.Struct, kw_only=True):
    """Keys read of config.json's `rope_parameters` or `rope_scaling`."""

    rope_type: str | None = None
    type: str | None = None
    rope_theta: _Base | None = None
    partial_rotary_factor: float | None = None
    original_max_position_embeddings: _Size | None = None
    factor: _Positive | None = None
    low_freq_factor: _Positive | None = None
    high_freq_factor: _Positive | None = None
    beta_fast: _Positive | None = None
    beta_slow: _Positive | None = None
    truncate: bool | None = None
    attention_factor: _Positive | None = None
    mscale: Annotated[float, Meta(ge=0)] | None = None
    mscale_all_dim: Annotated[float, Meta(ge=0)] | None = None
    factors: list[_Positive] | None = None


class _HubConfig(msgspec.Struct, kw_only=True):
    """Keys read of any family's config.json."""

    vocab_size: _Size
    hidden_size: _Size
    intermediate_size: _Size
    num_hidden_layers: _Size
    num_attention_heads: _Size
    num_key_value_heads: _Size | None = None
    head_dim: _Size | None = None
    hidden_act: str = "silu"
    rms_norm_eps: _Positive = 1e-6
    initializer_range: float = 0.02
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    tie_word_embeddings: bool | None = None
    max_position_embeddings: _Size | None = None
    original_max_position_embeddings: _Size | None = None
    rope_theta: _Base | None = None
    rope_parameters: _RopeParameters | None = None
    rope_scaling: _RopeParameters | None = None
    partial_rotary_factor: float | None = None
    use_sliding_window: bool | None = None
    layer_types: list[str] | None = None
    quantization_config: dict[str, Any] | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class ModelArchitecture:
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
    """`rope_type`, `rope_theta` and the parameters of that type, as `compute_frequencies` reads them."""
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


def read_architecture(directory: Path) -> ModelArchitecture:
    """The architecture in `directory`'s config.json (and end-of-sequence ids of generation_config.json).

    Raises `ModelNotFoundError` without a readable config.json, `UnsupportedArchitectureError` for other
    kinds of model.
    """
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelNotFoundError(directory, "it has no config.json") from None
    except (ValueError, RecursionError) as error:
        raise ModelNotFoundError(directory, f"config.json is not JSON: {error}") from None
    except OSError as error:
        raise ModelNotFoundError(directory, f"config.json cannot be read: {error.strerror}") from None
    if not isinstance(config, dict):
        raise ModelNotFoundError(directory, "config.json is not an object")
    eos = _token_ids(config.get("eos_token_id"))
    # an optional file
    with contextlib.suppress(FileNotFoundError, ValueError, AttributeError, RecursionError):
        generation = json.loads((directory / "generation_config.json").read_text(encoding="utf-8"))
        eos |= _token_ids(generation.get("eos_token_id"))
    return parse_architecture(config, eos)


def parse_architecture(
    config: Mapping[str, Any], eos_token_ids: frozenset[int], source: str = "config.json"
) -> ModelArchitecture:
    """The architecture that a config.json describes; keys it leaves out take the family's defaults.

    `source`: what messages call it.

    Raises `UnsupportedArchitectureError` for other kinds of model, and for values that none can have.
    """
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else "unnamed"
    family = FAMILIES.get(str(name))
    if family is None:
        raise UnsupportedArchitectureError(f"{name} is not supported; the engine runs {', '.join(FAMILIES)}")
    try:
        given = msgspec.convert(config, _HubConfig)
    except msgspec.ValidationError as error:
        raise UnsupportedArchitectureError(f"{source} cannot be used: {error}") from None
    if given.hidden_act != "silu":
        raise UnsupportedArchitectureError(f"hidden_act {given.hidden_act!r} is not supported; 'silu' is")
    if given.use_sliding_window or "sliding_attention" in (given.layer_types or ()):
        message = "sliding-window attention is not supported; it would give wrong answers"
        raise UnsupportedArchitectureError(message)
    if given.quantization_config:
        raise UnsupportedArchitectureError("quantized checkpoints are not supported; use unquantized ones")

    hidden, heads = given.hidden_size, given.num_attention_heads
    bias = bool(given.attention_bias)
    head_dim = given.head_dim or (128 if family == "qwen3" else hidden // heads)
    kv_heads = given.num_key_value_heads or heads
    if heads % kv_heads or head_dim % 2 or not head_dim:
        sizes = f"{heads} heads over {kv_heads} KV heads of {head_dim}"
        raise UnsupportedArchitectureError(f"{sizes} is not supported")
    rope, context = _rope_parameters(given)
    return ModelArchitecture(
        name=name,
        vocab_size=given.vocab_size,
        hidden_size=hidden,
        intermediate_size=given.intermediate_size,
        layers=given.num_hidden_layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        norm_eps=given.rms_norm_eps,
        qkv_bias=bias or family == "qwen2",
        output_bias=bias and family != "qwen2",
        mlp_bias=bool(given.mlp_bias) and family == "llama",
        qk_norm=family == "qwen3",
        tied=bool(given.tie_word_embeddings),
        context_length=context,
        rope=rope,
        eos_token_ids=eos_token_ids,
        initializer_range=given.initializer_range,
    )


def _rope_parameters(config: _HubConfig) -> tuple[dict[str, Any], int]:
    """Rotary parameters from `rope_parameters` (transformers 5) or `rope_scaling` (before), and the context
    they make: `max_position_embeddings`, unless that is the length before stretching."""
    context = config.max_position_embeddings or 2048
    given = config.rope_parameters or config.rope_scaling or _RopeParameters()
    rope = {key: value for key, value in msgspec.structs.asdict(given).items() if value is not None}
    rope["rope_type"] = given.rope_type or given.type or "default"
    rope.setdefault("rope_theta", config.rope_theta or 10000.0)
    rope.setdefault("original_max_position_embeddings", config.original_max_position_embeddings or context)
    if rope["rope_type"] in ("yarn", "linear"):
        context = max(context, int(rope["original_max_position_embeddings"] * rope.get("factor", 1)))
    if rope.get("partial_rotary_factor", config.partial_rotary_factor or 1.0) != 1.0:
        raise UnsupportedArchitectureError("partial rotary embeddings are not supported")
    return rope, context


def _token_ids(value: object) -> frozenset[int]:
    ids = value if isinstance(value, list) else [value]
    return frozenset(i for i in ids if isinstance(i, int) and i >= 0)
