"""Models of known shapes with random weights, so that a benchmark needs no download."""

from __future__ import annotations

import json
from pathlib import Path

SHAPES = {  # hidden, intermediate, layers, heads, KV heads, vocabulary
    "tiny": (64, 128, 2, 2, 1, 4096),
    "5m": (256, 768, 6, 4, 2, 4096),
    "40m": (512, 1536, 8, 8, 4, 16384),
    "135m": (576, 1536, 30, 9, 3, 49152),
}


def llama_config(shape: str) -> dict[str, object]:
    """The `config.json` of a Llama of that shape, input and output embeddings tied."""
    hidden, intermediate, layers, heads, kv_heads, vocabulary = SHAPES[shape]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
    }


def write_config(shape: str, directory: Path) -> Path:
    """`config.json` alone: what `load_format="dummy"` needs."""
    (directory / "config.json").write_text(json.dumps(llama_config(shape)), encoding="utf-8")
    return directory
