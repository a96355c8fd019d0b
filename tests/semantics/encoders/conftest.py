"""The real model, prepared and loaded once."""

import pytest

from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import load_encoder
from radixway.semantics.encoders.model_files import MINILM, find_model


@pytest.fixture(scope="session")
def minilm():
    """MiniLM in numpy."""
    return load_encoder(EncodersConfig(backend="numpy"))


@pytest.fixture(scope="session")
def encoders_home(tmp_path_factory):
    """Where the tests' models are prepared."""
    return tmp_path_factory.mktemp("encoders")


@pytest.fixture(scope="session")
def int8(encoders_home):
    """MiniLM in onnxruntime, as it runs by default."""
    return load_encoder(EncodersConfig(backend="int8", home=encoders_home))


@pytest.fixture(scope="session")
def peer():
    """Text → hidden states of the same model in transformers: [layers + 1] of [n, 384], specials included."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    directory = find_model(MINILM)
    tokenizer, model = AutoTokenizer.from_pretrained(directory), AutoModel.from_pretrained(directory).eval()

    def states(text):
        with torch.no_grad():
            output = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        return [state[0].numpy() for state in output.hidden_states]

    return states
