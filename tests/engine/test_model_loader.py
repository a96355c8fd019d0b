"""Finding and loading weights: what works, and what a broken checkpoint says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.conftest import Reference
from radixway.engine.errors import CheckpointError, EngineError, ModelNotFoundError
from radixway.engine.model_loader import find_model
from support.driving import answers, random_tokens, tiny_core

Make = Callable[[str], Reference]


@pytest.fixture
def checkpoint(reference: Make, tmp_path: Path) -> Path:
    """A copy of a model's directory, to break."""
    shutil.copytree(reference("qwen3")[0], tmp_path / "model")
    return tmp_path / "model"


def rewrite(checkpoint: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(checkpoint / "model.safetensors")
    change(tensors)
    save_file(tensors, checkpoint / "model.safetensors")


def test_a_missing_tensor_is_named(checkpoint: Path) -> None:
    rewrite(checkpoint, lambda tensors: void(tensors.pop("model.layers.1.mlp.up_proj.weight")))
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight"):
        tiny_core(checkpoint)


def test_a_tensor_of_another_shape_is_named(checkpoint: Path) -> None:
    rewrite(checkpoint, lambda tensors: tensors.update({"model.norm.weight": torch.ones(7)}))
    with pytest.raises(CheckpointError, match=r"norm\.weight .* is \(7,\); config\.json says \(48,\)"):
        tiny_core(checkpoint)


def test_a_cut_off_file_is_named(checkpoint: Path) -> None:
    file = checkpoint / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        tiny_core(checkpoint)


def test_a_missing_shard_and_a_broken_index_are_named(checkpoint: Path) -> None:
    index = checkpoint / "model.safetensors.index.json"
    names = load_file(checkpoint / "model.safetensors")
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, "gone.safetensors")}))
    with pytest.raises(CheckpointError, match="gone"):
        tiny_core(checkpoint)
    index.write_text("{}")
    with pytest.raises(CheckpointError, match=r"index\.json"):
        tiny_core(checkpoint)


def test_a_directory_without_safetensors_says_what_it_looked_for(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").rename(checkpoint / "pytorch_model.bin")
    with pytest.raises(ModelNotFoundError, match="safetensors"):
        tiny_core(checkpoint)


def test_files_nested_without_end_are_not_json(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors.index.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=r"index\.json"):
        tiny_core(checkpoint)
    (checkpoint / "config.json").write_text("[" * 100_000)
    with pytest.raises(ModelNotFoundError, match=r"config\.json"):
        tiny_core(checkpoint)


def test_dummy_weights_need_only_the_config(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    prompts = [random_tokens(9)]
    first = answers(tiny_core(checkpoint, load_format="dummy"), prompts)
    assert first == answers(tiny_core(checkpoint, load_format="dummy"), prompts)
    assert first != answers(tiny_core(checkpoint, load_format="dummy", seed=1), prompts)


def test_a_model_that_is_nowhere_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    names = [
        "./nowhere",
        "nowhere",
        "a/b/c",
        "nobody/no-such-model",
        "~no-such-user/nowhere",
        "nowhere" * 999,
    ]
    for name in (str(tmp_path / "nowhere"), *names):
        with pytest.raises(ModelNotFoundError, match="nowhere|a/b/c|no-such-model"):
            find_model(name)


def test_the_bundled_model_is_found_by_its_name() -> None:
    assert (find_model("bundled") / "config.json").exists()


def test_progress_is_told_and_may_stop_the_load(reference: Make) -> None:
    from radixway.core.config.engine import EngineConfig
    from radixway.engine.build import build_core

    config = EngineConfig(model=str(reference("llama")[0]), kv_tokens=64)
    told: list[tuple[str, float]] = []
    build_core(config, progress=lambda what, share: told.append((what, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1

    def stop(what: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_core(config, progress=stop)


def test_a_context_longer_than_the_models_is_refused(reference: Make) -> None:
    with pytest.raises(EngineError, match=r"1000 .* 512"):
        tiny_core(reference("llama")[0], context_length=1000)


def test_the_pool_is_sized_by_memory_unless_told(reference: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    import radixway.engine.build as build

    path, _ = reference("llama")
    token = 2 * 3 * 2 * 12 * 4  # key and value, layers, heads, head_dim, bytes
    monkeypatch.setattr(build, "measure_free_memory", lambda device: 100 * 4 * token)
    half = tiny_core(path, kv_tokens=None, kv_memory_fraction=0.5)
    assert half.stats().kv_total == 50 * 4
    assert half.model_info.context_length == 200, "no request may be longer than the whole pool"
    monkeypatch.setattr(build, "measure_free_memory", lambda device: 2**50)
    assert tiny_core(path, kv_tokens=None).stats().kv_total == 32 * 512
    monkeypatch.setattr(build, "measure_free_memory", lambda device: 100)
    with pytest.raises(EngineError, match="no KV page"):
        tiny_core(path, kv_tokens=None)
    assert tiny_core(path, kv_tokens=17).stats().kv_total == 20


def void(value: object) -> None:
    """For a lambda that is called for what it does."""
