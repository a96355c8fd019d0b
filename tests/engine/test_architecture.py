"""What is read from config.json, and what is refused in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import Reference
from radixway.engine.architecture import ModelArchitecture, parse_architecture, read_architecture
from radixway.engine.errors import ModelNotFoundError, UnsupportedArchitectureError

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def parse(**changes: Any) -> ModelArchitecture:
    return parse_architecture(LLAMA | changes, frozenset())


def test_the_number_of_parameters_is_right(reference: Any) -> None:
    for name in ("llama-tied-with-biases", "qwen2", "qwen3-untied-with-biases"):
        made: Reference = reference(name)
        path, model = made
        assert read_architecture(path).parameters == sum(p.numel() for p in model.parameters())


def test_families_differ_in_three_flags() -> None:
    llama = parse()
    qwen2 = parse(architectures=["Qwen2ForCausalLM"])
    qwen3 = parse(architectures=["Qwen3ForCausalLM"])
    assert (llama.qkv_bias, llama.qk_norm, llama.head_dim) == (False, False, 16)
    assert (qwen2.qkv_bias, qwen2.qk_norm, qwen2.head_dim) == (True, False, 16)
    assert (qwen3.qkv_bias, qwen3.qk_norm, qwen3.head_dim) == (False, True, 128)


def test_rotary_parameters_are_read_in_both_spellings() -> None:
    yarn = {"factor": 4.0, "original_max_position_embeddings": 512}
    old = parse(rope_theta=5e5, rope_scaling={"type": "yarn", **yarn}, max_position_embeddings=512)
    new = parse(
        rope_parameters={"rope_type": "yarn", "rope_theta": 5e5, **yarn}, max_position_embeddings=2048
    )
    for key in ("rope_type", "rope_theta", "factor", "original_max_position_embeddings"):
        assert old.rope[key] == new.rope[key]
    assert old.context_length == new.context_length == 2048


def test_end_of_sequence_ids_come_from_both_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"eos_token_id": 7}))
    assert read_architecture(tmp_path).eos_token_ids == {7}
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [8, 9]}')
    assert read_architecture(tmp_path).eos_token_ids == {7, 8, 9}
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [-1, null, "x"]}')
    assert read_architecture(tmp_path).eos_token_ids == {7}
    (tmp_path / "generation_config.json").write_text("no JSON")
    assert read_architecture(tmp_path).eos_token_ids == {7}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"architectures": None}, "unnamed"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"use_sliding_window": True}, "sliding"),
        ({"quantization_config": {"bits": 4}}, "quantized"),
        ({"num_key_value_heads": 3}, "3 KV heads"),
        ({"partial_rotary_factor": 0.5}, "partial"),
    ],
)
def test_models_it_would_run_wrongly_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=named):
        parse(**changes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": 5}, "unnamed"),
        ({"architectures": [{}]}, "{}"),
        ({"num_hidden_layers": "x"}, "num_hidden_layers"),
        ({"num_hidden_layers": -1}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"num_attention_heads": 128}, "of 0"),
        ({"num_key_value_heads": -2}, "num_key_value_heads"),
        ({"hidden_size": [64]}, "hidden_size"),
        ({"vocab_size": 1.5}, "vocab_size"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"head_dim": "16"}, "head_dim"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps"),
        ({"max_position_embeddings": [512]}, "max_position_embeddings"),
        ({"layer_types": 5}, "layer_types"),
        ({"rope_theta": "x"}, "rope_theta"),
        ({"rope_theta": 0}, "rope_theta"),
        ({"rope_scaling": "yarn"}, "rope_scaling"),
        ({"rope_scaling": {"type": "yarn", "factor": float("inf")}}, r"rope_scaling\.factor"),
        ({"rope_parameters": {"rope_type": ["yarn"]}}, r"rope_parameters\.rope_type"),
    ],
)
def test_values_that_no_model_can_have_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=named):
        parse(**changes)


def test_a_directory_without_a_usable_config_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"config\.json"):
        read_architecture(tmp_path)
    for content in ("{", "[]"):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(ModelNotFoundError, match=r"config\.json"):
            read_architecture(tmp_path)
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    with pytest.raises(UnsupportedArchitectureError, match="vocab_size"):
        read_architecture(tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ModelNotFoundError, match=r"config\.json cannot be read"):
        read_architecture(tmp_path)
