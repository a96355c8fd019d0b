"""Which classifiers of a models folder are used, and what their labels are."""

import json

import pytest

from radixway.semantics.encoders import EncoderError
from radixway.semantics.encoders.classifiers import discover_classifiers
from radixway.semantics.encoders.classifiers.model_folder import read_labels

IN_ORDER = [
    ("lora_jailbreak_classifier_bert_model", "bert"),
    ("lora_jailbreak_classifier_roberta_model", "roberta"),
    ("lora_jailbreak_classifier_modernbert_model", "modernbert"),
    ("jailbreak_classifier_modernbert-base_model", "modernbert"),
]


def place(models, name, **config):
    (models / name).mkdir(parents=True)
    (models / name / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("config_tells", [True, False])
def test_lora_bert_goes_before_lora_roberta_before_lora_modernbert_before_others(
    tmp_path, first, config_tells
):
    for name, architecture in IN_ORDER[first:]:
        place(tmp_path, name, **({"model_type": architecture} if config_tells else {}))
    assert discover_classifiers(tmp_path)["jailbreak"].path.name == IN_ORDER[first][0]


def test_every_task_is_found_by_the_published_names(tmp_path):
    place(tmp_path, "lora_intent_classifier_bert-base-uncased_model", model_type="bert")
    place(tmp_path, "category_classifier_modernbert-base_model", model_type="modernbert")
    place(tmp_path, "pii_classifier_modernbert-base_presidio_token_model", model_type="modernbert")
    found = discover_classifiers(tmp_path)
    assert {task: (what.path.name, what.lora) for task, what in found.items()} == {
        "category": ("lora_intent_classifier_bert-base-uncased_model", True),
        "pii": ("pii_classifier_modernbert-base_presidio_token_model", False),
    }


def test_a_directory_with_an_adapter_is_a_lora_whatever_its_name(tmp_path):
    place(tmp_path, "jailbreak-a", model_type="bert")
    (tmp_path / "jailbreak-z-bert").mkdir()
    (tmp_path / "jailbreak-z-bert" / "adapter_config.json").write_text("{}")
    assert discover_classifiers(tmp_path)["jailbreak"].path.name == "jailbreak-z-bert"


def test_what_is_no_classifier_is_passed_over(tmp_path):
    place(tmp_path, "all-MiniLM-L12-v2", model_type="bert")
    (tmp_path / "pii_notes").mkdir()
    (tmp_path / "jailbreak.txt").write_text("")
    assert discover_classifiers(tmp_path) == {}
    assert discover_classifiers(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("category_mapping.json", {"idx_to_category": {"0": "math", "1": "law"}}),
        ("category_mapping.json", {"category_to_idx": {"law": 1, "math": 0}}),
        ("pii_type_mapping.json", {"label_to_idx": {"law": 1, "math": 0}}),
        ("config.json", {"id2label": {"1": "law", "0": "math"}}),
    ],
)
def test_labels_are_read_in_the_order_of_the_outputs(tmp_path, name, content):
    (tmp_path / name).write_text(json.dumps(content))
    assert read_labels(tmp_path) == ("math", "law")


@pytest.mark.parametrize(
    "content", ["{}", "[]", "no", '{"idx_to_label": {"0": "a", "2": "b"}}', '{"id2label": {}}']
)
def test_a_mapping_that_cannot_be_used_is_refused_by_its_name(tmp_path, content):
    (tmp_path / "label_mapping.json").write_text(content)
    with pytest.raises(EncoderError, match=r"label_mapping\.json"):
        read_labels(tmp_path)
