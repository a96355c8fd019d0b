"""Tiny models with random weights, in directories such as people have."""

import json
import shutil

import pytest
import torch
import transformers

from radixway.semantics.encoders.model_files import MINILM, find_model

SHAPE = {
    "vocab_size": 30522,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "pad_token_id": 0,
}
KINDS = {"bert": "Bert", "roberta": "Roberta", "modernbert": "ModernBert"}


@pytest.fixture
def write_model(tmp_path):
    """Writes a classifier's directory: (name, architecture, task, labels) → its path."""

    def write(name, architecture="bert", task="SequenceClassification", labels=2):
        torch.manual_seed(len(name))
        directory = tmp_path / name
        extra = {"global_attn_every_n_layers": 1} if architecture == "modernbert" else {}
        names = {index: f"label-{index}" for index in range(labels)}
        config = getattr(transformers, f"{KINDS[architecture]}Config")(**SHAPE, **extra, id2label=names)
        model = getattr(transformers, f"{KINDS[architecture]}For{task}")(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        model.save_pretrained(directory)
        shutil.copy(find_model(MINILM) / "tokenizer.json", directory)
        return directory

    return write


@pytest.fixture
def write_mapping():
    """Writes labels beside a model as they are published."""

    def write(directory, name, key, labels):
        (directory / name).write_text(json.dumps({key: {str(i): label for i, label in enumerate(labels)}}))

    return write
