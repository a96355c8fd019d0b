"""Weights under their names, read from a running model and replaced; what is not for it changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from engine.conftest import Reference
from radixway.engine import model_loader
from radixway.engine.engine_core import EngineCore
from radixway.engine.errors import (
    CheckpointError,
    InvalidWeightsError,
    ModelNotFoundError,
    UnsupportedArchitectureError,
)
from radixway.engine.weight_update import (
    DiskWeights,
    TensorWeights,
    WeightUpdate,
    find_weight,
    merge_tensors,
    read_tensors,
)
from support.driving import answers, random_tokens, tiny_core
from support.policies import Policies
from support.tiny_models import FAMILIES

Make = Callable[[str], Reference]
PROMPTS = [random_tokens(30), random_tokens(11, 1)]


@pytest.fixture(scope="module", params=["qwen3", "llama-tied-with-biases", "qwen2"])
def policies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policies:
    return Policies(tmp_path_factory.mktemp("policies"), request.param)


@pytest.fixture(params=[False, True], ids=["plain", "packed"])
def packed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr(model_loader, "PACK_PARAMETERS", 0)
    return bool(request.param)


def use(core: EngineCore, weights: WeightUpdate) -> None:
    core.update_weights(
        weights.load_weights(core.runner.model), path=weights.path, version=None, keep_kv=False
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_every_tensor_of_a_checkpoint_is_found_by_its_name(reference: Make, name: str, packed: bool) -> None:
    path, model = reference(name)
    ours = tiny_core(path).runner.model
    for key, tensor in model.named_parameters():
        assert torch.equal(find_weight(ours, key), tensor), key  # type: ignore[arg-type]
        assert find_weight(ours, key.removeprefix("model.")) is not None
    for wrong in ("model.layers.99.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.bias2", "x", ""):
        assert find_weight(ours, wrong) is None


def test_new_weights_from_disk_answer_as_if_loaded_afresh(policies: Policies, packed: bool) -> None:
    core = tiny_core(policies.path(0))
    before = answers(core, PROMPTS)
    use(core, DiskWeights(str(policies.path(1))))
    assert answers(core, PROMPTS) == answers(tiny_core(policies.path(1)), PROMPTS) != before
    assert core.model_info.path == str(policies.path(1))
    use(core, DiskWeights(str(policies.path(0))))
    assert answers(core, PROMPTS) == before


def test_tensors_may_come_in_any_portions(policies: Policies, packed: bool) -> None:
    """Also a fused product's rows one by one, each next to the old ones of the others."""
    core = tiny_core(policies.path(0))
    tensors = policies.tensors(1)
    names = sorted(tensors, key=lambda name: name[::-1])
    for part in (names[:1], names[1:6], names[6:]):
        use(core, TensorWeights({name: tensors[name] for name in part}))
    assert answers(core, PROMPTS) == answers(tiny_core(policies.path(1)), PROMPTS)
    for name, tensor in tensors.items():
        assert torch.equal(find_weight(core.runner.model, name), tensor)  # type: ignore[arg-type]


def test_what_is_not_sent_is_not_copied(policies: Policies) -> None:
    old = tiny_core(policies.path(0)).runner.model
    name = "model.layers.1.mlp.up_proj.weight"
    new = TensorWeights({name: policies.tensors(1)[name]}).load_weights(old)
    assert [a is b for a, b in zip(old.layers, new.layers, strict=True)] == [True, False, True]
    assert new.embedding is old.embedding and new.head is old.head


def test_a_trainer_may_write_over_the_file_it_gave(policies: Policies, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes((policies.path(1) / "model.safetensors").read_bytes())
    core = tiny_core(policies.path(0))
    use(core, DiskWeights(str(tmp_path)))  # no config.json: it is the same model
    with file.open("r+b") as opened:
        opened.write(b"\xff" * file.stat().st_size)
    assert answers(core, PROMPTS) == answers(tiny_core(policies.path(1)), PROMPTS)


def other(policies: Policies, tmp_path: Path, **changes: Any) -> Path:
    """A checkpoint of another shape."""
    config = type(policies.model(0).config)(**policies.model(0).config.to_dict() | changes)
    type(policies.model(0))(config).save_pretrained(tmp_path / "other")
    return tmp_path / "other"


def test_a_checkpoint_of_another_model_changes_nothing(policies: Policies, tmp_path: Path) -> None:
    core = tiny_core(policies.path(0))
    before, model = answers(core, PROMPTS), core.runner.model
    with pytest.raises(InvalidWeightsError, match="intermediate_size is 64 and not 96"):
        use(core, DiskWeights(str(other(policies, tmp_path, intermediate_size=64))))
    with pytest.raises(ModelNotFoundError):
        use(core, DiskWeights(str(tmp_path / "nowhere")))
    with pytest.raises(ModelNotFoundError, match="safetensors"):
        use(core, DiskWeights(str(tmp_path)))
    (tmp_path / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError):
        use(core, DiskWeights(str(tmp_path)))
    tensors = policies.tensors(1)
    del tensors["model.layers.2.mlp.down_proj.weight"]  # noticed last: all the others are right
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="down_proj"):
        use(core, DiskWeights(str(tmp_path)))
    (tmp_path / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    with pytest.raises(UnsupportedArchitectureError):
        use(core, DiskWeights(str(tmp_path)))
    assert core.runner.model is model and answers(core, PROMPTS) == before


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        (
            "model.layers.0.mlp.up_proj.weight",
            torch.zeros(96, 47),
            r"is \(96, 47\); the model's is \(96, 48\)",
        ),
        ("model.layers.0.mlp.up_proj.weight", torch.zeros(96, 48, dtype=torch.int32), "int32"),
        ("model.layers.3.mlp.up_proj.weight", torch.zeros(96, 48), "no such tensor"),
        ("model.layers.0.mlp.side_proj.weight", torch.zeros(96, 48), "no such tensor"),
    ],
)
def test_a_wrong_tensor_among_right_ones_changes_nothing(
    policies: Policies, name: str, tensor: torch.Tensor, words: str
) -> None:
    core = tiny_core(policies.path(0))
    before = answers(core, PROMPTS)
    with pytest.raises(InvalidWeightsError, match=words):
        use(core, TensorWeights(policies.tensors(1) | {name: tensor}))
    assert answers(core, PROMPTS) == before


def test_a_tied_output_is_sent_as_the_embedding(tmp_path: Path) -> None:
    policies = Policies(tmp_path, "llama-tied-with-biases")
    model = tiny_core(policies.path(0)).runner.model
    tensors = policies.tensors(1)
    embedding = tensors["model.embed_tokens.weight"]
    TensorWeights(tensors | {"lm_head.weight": embedding}).load_weights(model)
    for wrong in ({"lm_head.weight": embedding}, tensors | {"lm_head.weight": embedding + 1}):
        with pytest.raises(InvalidWeightsError, match="lm_head"):
            TensorWeights(wrong).load_weights(model)


def test_what_is_no_safetensors_file_is_told() -> None:
    assert read_tensors(safetensors.torch.save({"a": torch.ones(2)}))["a"].tolist() == [1, 1]
    for data in (b"", b"\x00" * 8, b"\xff" * 100, b"\x10\0\0\0\0\0\0\0{}"):
        with pytest.raises(InvalidWeightsError, match="not a safetensors file"):
            read_tensors(data)
    with pytest.raises(InvalidWeightsError, match="pickle"):
        read_tensors(b"\x80\x04\x95rest")
    with pytest.raises(InvalidWeightsError, match="twice"):
        merge_tensors([{"a": torch.ones(1)}, {"a": torch.ones(1)}])
