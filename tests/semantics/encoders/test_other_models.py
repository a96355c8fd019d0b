"""Sentence models other than the default one: by directory, pooled otherwise, or as an ONNX file."""

import json
import shutil

import numpy as np
import onnx
import pytest
import torch
import transformers
from onnx import TensorProto, helper, numpy_helper

from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import EncoderError, load_encoder
from radixway.semantics.encoders.model_files import MINILM, find_model

TEXT = "Explain the causes of World War I."
SHAPE = {
    "vocab_size": 30522,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 300,
}


@pytest.fixture
def bert(tmp_path):
    """A small BERT with random weights, and its directory."""
    torch.manual_seed(1)
    model = transformers.BertModel(transformers.BertConfig(**SHAPE)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    directory = tmp_path / "small-bert"
    model.save_pretrained(directory)
    shutil.copy(find_model(MINILM) / "tokenizer.json", directory)
    return model, directory


def pool(directory, **ways):
    (directory / "1_Pooling").mkdir()
    told = {"word_embedding_dimension": 24, **{f"pooling_mode_{way}": on for way, on in ways.items()}}
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(told))


def last_states(model, directory):
    ids = transformers.PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))(TEXT)[
        "input_ids"
    ]
    with torch.no_grad():
        return model(torch.tensor([ids])).last_hidden_state[0].numpy()


@pytest.mark.parametrize("backend", ["numpy", "fp32"])
def test_any_bert_runs_from_its_directory(bert, tmp_path, backend):
    model, directory = bert
    encoder = load_encoder(EncodersConfig(model=str(directory), backend=backend, home=tmp_path / "home"))
    vector = last_states(model, directory).mean(0)
    assert encoder.id.startswith("small-bert-") and encoder.size == 24 and encoder.layers == (1, 2, 3)
    np.testing.assert_allclose(encoder.encode([TEXT])[0].vector, vector / np.linalg.norm(vector), atol=1e-5)


def test_a_model_is_pooled_by_its_first_token_where_its_files_say_so(bert):
    model, directory = bert
    pool(directory, cls_token=True, mean_tokens=False)
    encoder = load_encoder(EncodersConfig(model=str(directory), backend="numpy"))
    vector = last_states(model, directory)[0]
    np.testing.assert_allclose(encoder.encode([TEXT])[0].vector, vector / np.linalg.norm(vector), atol=1e-5)


def test_pooling_that_cannot_be_done_is_refused(bert):
    _, directory = bert
    pool(directory, max_tokens=True)
    with pytest.raises(EncoderError, match=r"1_Pooling/config\.json.*max_tokens"):
        load_encoder(EncodersConfig(model=str(directory)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "relu"),
        ("position_embedding_type", "relative_key"),
        ("hidden_size", "24"),
        ("num_hidden_layers", 0),
    ],
)
def test_a_bert_of_another_kind_is_refused_by_the_key(bert, key, value):
    _, directory = bert
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(EncoderError, match=rf"config\.json: {key}"):
        load_encoder(EncodersConfig(model=str(directory)))


def test_weights_that_do_not_fit_the_configuration_are_refused_by_name(bert):
    _, directory = bert
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"intermediate_size": 48}))
    with pytest.raises(EncoderError, match=r"intermediate\.dense\.weight has shape \(40, 24\)"):
        load_encoder(EncodersConfig(model=str(directory), backend="numpy"))


def test_cut_off_weights_are_refused(bert):
    _, directory = bert
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(EncoderError, match=r"model\.safetensors cannot be read"):
        load_encoder(EncodersConfig(model=str(directory), backend="numpy"))


def write_onnx(directory, inputs, size=8):
    """A model whose states are rows of a table: what an exporter would write, in small."""
    table = np.random.default_rng(1).normal(size=(30522, size)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["looked_up"])]
    nodes.append(helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT))
    nodes.append(helper.make_node("Unsqueeze", ["mask", "last"], ["column"]))
    nodes.append(helper.make_node("Mul", ["looked_up", "column"], ["last_hidden_state"]))
    graph = helper.make_graph(
        nodes,
        "table",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "n"]) for name in inputs],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "n", size])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([-1], np.int64), "last")],
    )
    (directory / "onnx").mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, directory / "onnx" / "model.onnx")
    shape = {"model_type": "distilbert", "dim": 8, "hidden_dim": 16, "n_layers": 2, "n_heads": 2}
    (directory / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 512}))
    shutil.copy(find_model(MINILM) / "tokenizer.json", directory)
    return table


def test_another_architecture_runs_from_its_onnx_file(tmp_path):
    table = write_onnx(tmp_path, ["input_ids", "attention_mask", "token_type_ids"])
    encoder = load_encoder(EncodersConfig(model=str(tmp_path)))
    (encoding,) = encoder.encode(["war"], layers=(2,))
    ids = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))("war")[
        "input_ids"
    ]
    np.testing.assert_allclose(
        encoding.vector, table[ids].mean(0) / np.linalg.norm(table[ids].mean(0)), atol=1e-6
    )
    np.testing.assert_allclose(encoding.states[2], table[ids[1:-1]], atol=1e-6)
    with pytest.raises(ValueError, match=r"layers \[2\], not \[1\]"):
        encoder.encode(["war"], layers=(1,))


def test_an_onnx_file_with_inputs_nobody_knows_is_refused(tmp_path):
    write_onnx(tmp_path, ["input_ids", "attention_mask", "pixel_values"])
    with pytest.raises(EncoderError, match="pixel_values"):
        load_encoder(EncodersConfig(model=str(tmp_path)))


def test_an_onnx_file_of_another_size_than_the_configuration_is_refused(tmp_path):
    write_onnx(tmp_path, ["input_ids", "attention_mask"], size=6)
    with pytest.raises(EncoderError, match="vectors of 6, config.json says 8"):
        load_encoder(EncodersConfig(model=str(tmp_path)))


def test_another_architecture_without_onnx_file_is_refused_in_words(bert):
    _, directory = bert
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "mpnet"}))
    with pytest.raises(EncoderError, match=r"holds a mpnet: it needs .* a model\.onnx"):
        load_encoder(EncodersConfig(model=str(directory)))


def test_a_directory_that_there_is_not_is_told_by_its_name(tmp_path):
    with pytest.raises(EncoderError, match="nowhere"):
        load_encoder(EncodersConfig(model=str(tmp_path / "nowhere")))
