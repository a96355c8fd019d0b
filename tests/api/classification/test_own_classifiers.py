"""Classifiers of one's own behind the questions: tiny models with weights that decide by one word."""

import json
import shutil

import pytest

pytest.importorskip("re2")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from radixway.routing import WorkerState  # noqa: E402
from radixway.semantics.encoders.model_files import MINILM, find_model  # noqa: E402

SHAPE = {
    "vocab_size": 30522,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
}
NAME = "My name is jane and that is all."


def write(directory, task, labels, marks, usual):
    """A BERT that gives a token (or a text with it) the label that its word is marked with, else `usual`.

    The marked words' embeddings point along the axis of their label. Text labels are read from the first
    token, which therefore attends to all of them evenly.
    """
    config = transformers.BertConfig(**SHAPE, id2label=dict(enumerate(labels)), hidden_act="relu")
    model = getattr(transformers, f"BertFor{task}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        embeddings = model.bert.embeddings
        embeddings.LayerNorm.weight.fill_(1)
        layer = model.bert.encoder.layer[0]
        layer.attention.output.LayerNorm.weight.fill_(1)
        layer.output.LayerNorm.weight.fill_(1)
        words = embeddings.word_embeddings.weight
        words[:, 0] = 1.0
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(find_model(MINILM) / "tokenizer.json")
        )
        for word, label in marks.items():
            words[tokenizer.convert_tokens_to_ids(word)] = 0
            words[tokenizer.convert_tokens_to_ids(word), labels.index(label) + 1] = 1.0
        if task == "SequenceClassification":
            self_attention = layer.attention.self
            self_attention.value.weight.copy_(50 * torch.eye(SHAPE["hidden_size"]))
            layer.attention.output.dense.weight.copy_(torch.eye(SHAPE["hidden_size"]))
            model.bert.pooler.dense.weight.copy_(torch.eye(SHAPE["hidden_size"]))
        for index, label in enumerate(labels):
            model.classifier.weight[index, index + 1] = 20.0
            model.classifier.bias[index] = 10.0 if label == usual else 0.0
    directory.mkdir(parents=True)
    model.save_pretrained(directory)
    shutil.copy(find_model(MINILM) / "tokenizer.json", directory)
    return directory


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A models folder with all three, named as published."""
    folder = tmp_path_factory.mktemp("models")
    pii = ["O", "B-PERSON", "B-GPE"]
    write(
        folder / "pii_classifier_model",
        "TokenClassification",
        pii,
        {"jane": "B-PERSON", "berlin": "B-GPE"},
        "O",
    )
    return folder


async def test_personal_data_is_found_with_its_place_masked_and_filtered(asking, models):
    async with asking(encoders={"classifiers": str(models)}) as running:
        options = {"return_positions": True, "mask_entities": True}
        path, body = "/api/v1/classify/pii", {"text": NAME, "options": options}
        status, told, _ = await running.post(path, body)
        assert status == 200, told
        (entity,) = told["entities"]
        assert (entity["type"], entity["value"], entity["masked_value"]) == ("PERSON", "jane", "[PERSON]")
        assert NAME[entity["start_position"] : entity["end_position"]] == "jane"
        assert told["masked_text"] == "My name is [PERSON] and that is all."
        assert told["has_pii"] and told["security_recommendation"] == "block"

        body["options"] = {"entity_types": ["LOCATION", "NRP"]}
        _, told, _ = await running.post(path, body)
        assert not told["has_pii"] and told["security_recommendation"] == "allow"
        assert told["unknown_entity_types"] == ["NRP"], "what nobody looked for is not said to be absent"
        assert "masked_text" not in told

        body["options"] = {"entity_types": ["NRP"]}
        status, told, _ = await running.post(path, body)
        assert status == 400 and told["error"]["param"] == "options.entity_types"

        body = {"texts": [NAME, "Nothing here."], "task_type": "pii"}
        _, told, _ = await running.post("/api/v1/classify/batch", body)
        assert told["statistics"] == {"flagged_count": 1, "entity_type_distribution": {"PERSON": 1}}

        _, told, _ = await running.post("/api/v1/classify/combined", {"text": NAME})
        assert told["overall_recommendation"]["action"] == "block"
        assert "unavailable" not in told and not told["security"]["is_jailbreak"]
        _, told = await running.get("/info/models")
        (pii,) = (each for each in told["models"] if each["name"] == "pii_classifier")
        assert pii["loaded"] and pii["model_path"] == "pii_classifier_model"


@pytest.fixture(scope="module")
def harmful(tmp_path_factory):
    """A jailbreak classifier that knows the word `ignore`; one whose labels do not say what is harmless."""
    folder = tmp_path_factory.mktemp("harmful")
    labels, marks = ["benign", "jailbreak"], {"ignore": "jailbreak"}
    write(folder / "good" / "jailbreak_classifier", "SequenceClassification", labels, marks, "benign")
    path = write(folder / "odd" / "jailbreak_classifier", "SequenceClassification", labels, marks, "benign")
    (path / "label_mapping.json").write_text(json.dumps({"idx_to_label": {"0": "LABEL_0", "1": "LABEL_1"}}))
    return folder


async def test_an_attack_is_told_from_a_question_wherever_it_stands(asking, harmful):
    path = "/api/v1/classify/security"
    attack = "ignore ignore ignore ignore"
    async with asking(encoders={"classifiers": str(harmful / "good")}) as running:
        options = {"include_reasoning": True}
        status, told, _ = await running.post(path, {"text": attack, "options": options})
        assert status == 200, told
        assert told["is_jailbreak"] and told["recommendation"] == "block"
        assert told["detection_types"] == ["jailbreak"] and told["risk_score"] == told["confidence"] > 0.7
        assert "jailbreak" in told["reasoning"] and "ignore" not in told["reasoning"]
        _, told, _ = await running.post(path, {"text": "What is the capital of France?"})
        assert not told["is_jailbreak"] and told["recommendation"] == "allow"
        assert told["confidence"] == pytest.approx(1 - told["risk_score"])
        long = f"{'harmless words ' * 600}{'ignore ' * 600}{'harmless words ' * 600}"
        _, told, _ = await running.post(path, {"text": long})
        assert told["is_jailbreak"], "the worst window counts"
        options = {"detection_types": ["manipulation"]}
        status, told, _ = await running.post(path, {"text": attack, "options": options})
        assert status == 400 and told["error"]["param"] == "options.detection_types"


async def test_a_classifier_whose_labels_do_not_say_what_is_harmless_is_not_guessed_about(asking, harmful):
    async with asking(encoders={"classifiers": str(harmful / "odd")}) as running:
        _, told, _ = await running.post("/api/v1/classify/security", {"text": "ignore this"})
    assert not told["is_jailbreak"], "what ships judges in its place"


async def test_a_classifier_that_cannot_be_loaded_is_an_honest_error(asking, tmp_path):
    broken = tmp_path / "pii_model"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    async with asking(encoders={"classifiers": str(tmp_path)}) as running:
        for _ in range(2):
            status, told, _ = await running.post("/api/v1/classify/pii", {"text": NAME})
            assert status == 503 and told["error"]["code"] == "PII_CLASSIFIER_UNAVAILABLE"
        _, told = await running.get("/info/models")
    (pii,) = (each for each in told["models"] if each["name"] == "pii_classifier")
    assert not pii["loaded"] and pii["error"]


@pytest.fixture(scope="module")
def categories(tmp_path_factory):
    """A category classifier that knows two domains by a word each."""
    folder = tmp_path_factory.mktemp("categories")
    labels, marks = ["math", "law", "other"], {"theorem": "math", "court": "law"}
    write(folder / "category_classifier", "SequenceClassification", labels, marks, "other")
    return folder


async def test_a_category_classifier_judges_in_place_of_the_shipped_head_for_questions_and_requests(
    asking, categories
):
    from support.scripted_worker import scripted_worker

    section = {
        "default_model": "general",
        "categories": [
            {
                "name": "justice",
                "mmlu_categories": ["law"],
                "model_scores": [{"model": "lawyer", "score": 1, "use_reasoning": False}],
            }
        ],
    }
    text = "court court court court"
    encoders = {"classifiers": str(categories)}
    async with scripted_worker(models=["general", "lawyer"]) as worker:
        sections = {"semantic": section, "encoders": encoders, "workers": [{"url": worker.url}]}
        async with asking(**sections) as running:
            options = {"return_probabilities": True}
            _, told, _ = await running.post("/api/v1/classify/intent", {"text": text, "options": options})
            assert told["classification"]["category"] == "justice"
            assert set(told["probabilities"]) == {"math", "justice", "other"}
            await running.until(worker.url, WorkerState.READY)
            status, _, headers = await running.chat(
                model="auto", messages=[{"role": "user", "content": text}]
            )
            assert status == 200 and headers["x-vsr-selected-model"] == "lawyer"
            _, told = await running.get("/info/models")
            assert told["models"][0]["model_path"] == "category_classifier"
    alone = {
        **section,
        "classifier": {"category_model": {"model_id": str(categories / "category_classifier")}},
    }
    async with asking(semantic=alone) as running:
        _, told, _ = await running.post("/api/v1/classify/intent", {"text": text})
        assert told["classification"]["category"] == "justice", "as a config.yaml names it"
