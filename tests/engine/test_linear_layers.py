"""Weights and KV in few bits: close to the full ones, and the same answers whatever was cached."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine.conftest import Reference
from radixway.engine.errors import EngineError
from radixway.engine.kv_store import KVFormat
from radixway.engine.linear_layers import QuantizedLinear
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.weight_update import TensorWeights
from support.driving import answers, finish, last_logits, random_tokens, submit, tiny_core

Make = Callable[[str], Reference]
ERRORS = {"int8wo": 0.02, "int4wo": 0.15}
"""How far a product may be from the full one, as a share of its length."""


@pytest.mark.parametrize("quantization", ERRORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
def test_a_rounded_layer_is_close_to_the_full_one(
    quantization: Any, dtype: torch.dtype, biased: bool
) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(64, 96, dtype=dtype), torch.randn(5, 96, dtype=dtype)
    bias = torch.randn(64, dtype=dtype) if biased else None
    layer = QuantizedLinear(weight, bias, quantization)
    with torch.inference_mode():
        ours, full = layer(x), torch.nn.functional.linear(x, weight, bias)
    assert ours.dtype == dtype
    error = (ours - full).float().norm() / full.float().norm()
    assert 1e-4 < error < ERRORS[quantization]
    assert (layer.weight - weight).float().norm() / weight.float().norm() < ERRORS[quantization]


@pytest.mark.parametrize("quantization", ["int8wo"])
def test_a_model_with_rounded_weights_answers_nearly_the_same(reference: Make, quantization: str) -> None:
    path, _ = reference("qwen3-untied-with-biases")
    prompts = [random_tokens(length, seed=length) for length in (3, 20)]
    full = last_logits(tiny_core(path), prompts)
    rounded = last_logits(tiny_core(path, quantization=quantization), prompts)
    for ours, theirs in zip(rounded, full, strict=True):
        assert 0 < (ours - theirs).abs().max() < 0.1 * theirs.abs().max()


def test_what_cannot_be_rounded_is_told(reference: Make) -> None:
    with pytest.raises(EngineError, match="multiples of 32; one has 48"):
        tiny_core(reference("llama")[0], quantization="int4wo")


def test_new_weights_are_rounded_too(reference: Make) -> None:
    path, _ = reference("llama")
    core = tiny_core(path, quantization="int8wo")
    name = "model.layers.1.mlp.down_proj.weight"
    new = torch.randn(48, 96)
    model = TensorWeights({name: new}).load_weights(core.runner.model)
    assert isinstance(model.layers[1].down, QuantizedLinear)
    assert (model.layers[1].down.weight - new).norm() / new.norm() < ERRORS["int8wo"]
    assert model.layers[0] is core.runner.model.layers[0]


@pytest.mark.parametrize(("name", "error"), [("auto", 0.0), ("fp8", 0.07), ("int8", 0.008)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_vector_comes_back_nearly_as_it_was(name: Any, error: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    kept = KVFormat(name, dtype)
    x = torch.randn(7, 3, 64).to(dtype) * torch.tensor([0.01, 1.0, 50.0]).to(dtype)[:, None]
    data, scale = kept.pack_vectors(x)
    back = kept.unpack_vectors(data, scale)
    assert back.dtype == dtype and (scale is not None) == kept.is_scaled
    distance = (back - x).abs().amax(-1) / x.abs().amax(-1)
    assert distance.max() <= error + (0.005 if name != "auto" and dtype == torch.bfloat16 else 0)
    assert kept.vector_bytes(64) == 64 * data.element_size() + (4 if scale is not None else 0)


@pytest.mark.parametrize("name", ["fp8", "int8"])
def test_zeros_and_large_numbers_stay_numbers(name: Any) -> None:
    kept = KVFormat(name, torch.float32)
    x = torch.tensor([[0.0, 0.0], [1e-30, 0.0], [1e6, -1e6], [500.0, 1.0]])
    back = kept.unpack_vectors(*kept.pack_vectors(x))
    assert back.isfinite().all() and (back[0] == 0).all()
    if name == "fp8":
        assert back[2].tolist() == [448.0, -448.0]


@pytest.mark.parametrize("kv_cache_dtype", ["fp8", "int8"])
@pytest.mark.parametrize("options", [{}, {"max_batch_tokens": 7, "max_running": 5}, {"kv_tokens": 120}])
def test_with_kv_in_eight_bits_answers_do_not_depend_on_what_was_cached(
    reference: Make, kv_cache_dtype: str, options: dict[str, Any]
) -> None:
    path, _ = reference("qwen3")
    system = random_tokens(30)
    prompts = [[*system, *random_tokens(5 + seed, seed=seed)] for seed in range(6)]
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
    off = tiny_core(path, radix_cache=False, kv_cache_dtype=kv_cache_dtype)
    expected = [answers(off, [prompt], params)[0] for prompt in prompts]
    core = tiny_core(path, kv_cache_dtype=kv_cache_dtype, **options)
    assert answers(core, prompts, params) == expected
    assert answers(core, prompts, params) == expected, "and again, with all of it cached"


def test_eight_bits_hold_more_tokens_in_the_same_memory(reference: Make) -> None:
    path, _ = reference("llama-one-kv-head-wide")
    stores = {
        kind: tiny_core(path, kv_cache_dtype=kind).runner.attention._store.page_bytes  # type: ignore[attr-defined]
        for kind in ("auto", "int8", "fp8")
    }
    assert stores["fp8"] * 4 == stores["auto"] and stores["int8"] * 3 < stores["auto"]


def test_a_prompt_that_gives_no_numbers_leaves_none_behind_in_eight_bits(reference: Make) -> None:
    path, _ = reference("llama")
    core = tiny_core(path, kv_cache_dtype="int8", kv_tokens=64)
    core.runner.model.embedding[319] = torch.nan
    submit(core, [319] * 15)
    finish(core)
    core.flush_cache()
    expected = answers(tiny_core(path, kv_cache_dtype="int8"), [random_tokens(9, vocabulary=319)])
    assert answers(core, [random_tokens(9, vocabulary=319)]) == expected
