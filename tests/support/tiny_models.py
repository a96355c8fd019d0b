"""Tiny models of every supported family, as `transformers` makes, runs and saves them."""

from typing import Any

import torch
import transformers

SMALL = {
    "vocab_size": 320,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": 2,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": False},
    "llama-tied-with-biases": {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    "llama-without-groups": {"num_key_value_heads": 4},
    "llama-one-kv-head-wide": {"num_key_value_heads": 1, "head_dim": 32},
    "llama-rope-llama3": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 1000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    "llama-rope-linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}},
    "qwen2": {"tie_word_embeddings": False},
    "qwen2-tied-rope-yarn": {
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 128,
        },
    },
    "qwen3": {"head_dim": 16, "tie_word_embeddings": True},
    "qwen3-untied-with-biases": {"head_dim": 24, "tie_word_embeddings": False, "attention_bias": True},
}
CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
}


def random_model(name: str, seed: int = 0, **fields: Any) -> transformers.PreTrainedModel:
    """A model whose every weight is random, norms and biases included, and large enough to matter."""
    config_class, model_class = CLASSES[name.split("-")[0]]
    torch.manual_seed(seed)
    model = model_class(config_class(**SMALL | FAMILIES[name] | fields)).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in key else 0.0, 0.3 if "norm" in key else 0.15)
    return model
