"""The logits are those of `transformers` on the same weights, however a prompt comes to be computed."""

import copy
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from engine.conftest import Reference
from radixway.engine import build, model_loader
from radixway.engine.attention import CpuAttention, SdpaAttention
from support.driving import last_logits, random_tokens, tiny_core
from support.tiny_models import FAMILIES

Make = Callable[[str], Reference]


def expected(model: Any, prompts: Sequence[Sequence[int]]) -> list[Tensor]:
    """Last-token logits by `transformers`, a prompt at a time."""
    with torch.inference_mode():
        return [model(torch.tensor([list(prompt)])).logits[0, -1] for prompt in prompts]


def assert_same(ours: Sequence[Tensor], theirs: Sequence[Tensor], within: float = 1e-4) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).abs().max().item() < within


@pytest.mark.parametrize("family", FAMILIES)
class TestEveryFamily:
    def test_alone(self, reference: Make, family: str) -> None:
        path, model = reference(family)
        prompts = [random_tokens(61)]
        assert_same(last_logits(tiny_core(path), prompts), expected(model, prompts))

    def test_batched_with_prompts_of_other_lengths(self, reference: Make, family: str) -> None:
        path, model = reference(family)
        prompts = [random_tokens(length, seed=length) for length in (1, 2, 5, 16, 47, 150)]
        assert_same(last_logits(tiny_core(path), prompts), expected(model, prompts))

    def test_in_chunks_mixed_with_other_requests(self, reference: Make, family: str) -> None:
        path, model = reference(family)
        core = tiny_core(path, max_batch_tokens=13, max_running=5)
        prompts = [random_tokens(length, seed=length) for length in (90, 14, 1, 27, 64, 13)]
        assert_same(last_logits(core, prompts), expected(model, prompts))

    def test_after_cache_hits(self, reference: Make, family: str) -> None:
        path, model = reference(family)
        core = tiny_core(path)
        start = random_tokens(41)
        last_logits(core, [start])
        prompts = [start[:30] + random_tokens(20, 1), start + random_tokens(7, 2), start, start[:33]]
        computed = core.scheduler.cache.num_cached_pages
        assert computed == 10
        ours = last_logits(core, prompts)
        assert_same(ours, expected(model, prompts))


@pytest.mark.parametrize("attention", [CpuAttention, SdpaAttention])
def test_every_way_to_attend_agrees(
    reference: Make, attention: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = reference("qwen3")
    monkeypatch.setattr(build, "select_attention_backend", lambda store, device: attention(store))
    core = tiny_core(path, max_batch_tokens=31, page_size=8)
    prompts = [random_tokens(length, seed=length) for length in (100, 3, 99, 1, 31)]
    assert_same(last_logits(core, prompts), expected(model, prompts))
    assert_same(last_logits(core, prompts), expected(model, prompts))


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_the_page_size_does_not_matter(reference: Make, page_size: int) -> None:
    path, model = reference("llama")
    core = tiny_core(path, page_size=page_size, max_batch_tokens=50)
    prompts = [random_tokens(length, seed=length) for length in (70, 64, 65, 17)]
    assert_same(last_logits(core, prompts), expected(model, prompts))
    assert_same(last_logits(core, prompts), expected(model, prompts))


def test_packed_weights_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_loader, "PACK_PARAMETERS", 0)
    shape = {"hidden_size": 640, "intermediate_size": 1024, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2}
    config = transformers.Qwen2Config(vocab_size=1000, tie_word_embeddings=True, **shape, **heads)
    torch.manual_seed(1)
    model = transformers.Qwen2ForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    prompts = [random_tokens(30), random_tokens(9, 1)]
    assert_same(last_logits(tiny_core(tmp_path), prompts), expected(model, prompts))


def test_checkpoints_in_shards_and_in_half_precision_load(reference: Make, tmp_path: Path) -> None:
    _, model = reference("qwen3")
    copy.deepcopy(model).half().save_pretrained(tmp_path, max_shard_size="60KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    rounded = type(model).from_pretrained(tmp_path, dtype=torch.float32)
    prompts = [random_tokens(25)]
    assert_same(last_logits(tiny_core(tmp_path), prompts), expected(rounded, prompts))


def test_a_base_model_saved_without_its_head_loads(reference: Make, tmp_path: Path) -> None:
    path, model = reference("qwen3")
    copy.deepcopy(model).model.save_pretrained(tmp_path)
    shutil.copy(path / "config.json", tmp_path)
    prompts = [random_tokens(25)]
    assert_same(last_logits(tiny_core(tmp_path), prompts), expected(model, prompts))


def test_bfloat16_is_close(reference: Make) -> None:
    path, model = reference("qwen3")
    prompts = [random_tokens(40), random_tokens(7, 1)]
    ours = last_logits(tiny_core(path, dtype="bfloat16"), prompts)
    for one, other in zip(ours, expected(model, prompts), strict=True):
        ours_p, theirs_p = one.log_softmax(-1), other.log_softmax(-1)
        assert torch.nn.functional.kl_div(ours_p, theirs_p, log_target=True, reduction="sum") < 0.02
