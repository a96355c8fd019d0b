import asyncio
import shutil

import pytest
import torch
from transformers import BertConfig, BertForTokenClassification

from radixway.core.pipeline import GuardUnavailableError, PersonalDataSpan
from radixway.semantics.encoders import EncoderService
from radixway.semantics.encoders.model_files import MINILM, find_model
from radixway.semantics.guard.pii.finder import DefaultPersonalDataFinder, merge_findings
from radixway.semantics.guard.pii.labels import published_type

pytestmark = pytest.mark.asyncio


@pytest.fixture
async def encoders(one_encoder):
    service = EncoderService(lambda: one_encoder)
    yield service
    await service.aclose()


async def test_what_has_a_form_and_what_has_none_are_found_together(encoders):
    text = "I'm Maria Lopez, mail me at maria.lopez@example.com"
    found = await DefaultPersonalDataFinder(encoders).find(text)
    assert [(each.type, text[each.begin : each.end]) for each in found] == [
        ("PERSON", "Maria Lopez"),
        ("EMAIL_ADDRESS", "maria.lopez@example.com"),
    ]


async def test_types_of_both_kinds_are_told_before_anything_is_loaded(encoders):
    assert {"PERSON", "STREET_ADDRESS", "EMAIL_ADDRESS", "CREDIT_CARD"} <= set(
        DefaultPersonalDataFinder(encoders).types
    )


async def test_a_missing_head_makes_the_guard_unavailable(encoders, tmp_path):
    finder = DefaultPersonalDataFinder(encoders, head=tmp_path / "none.npz")
    with pytest.raises(GuardUnavailableError, match="none.npz"):
        await finder.find("anything")
    assert "none.npz" in finder.failure


async def test_why_only_recognisers_find_anything_is_told_once(encoders, tmp_path, caplog):
    finder = DefaultPersonalDataFinder(encoders, head=tmp_path / "none.npz")
    assert finder.describe() == {"reads": "none.npz"}
    for text in ("anything", "and more"):
        with pytest.raises(GuardUnavailableError):
            await finder.find(text)
    told = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert told == [f"personal data is found by recognisers only: {finder.failure}"]
    assert finder.describe() == {"reads": "none.npz", "failure": finder.failure}


async def test_a_missing_classifier_makes_the_guard_unavailable(encoders, tmp_path):
    with pytest.raises(GuardUnavailableError, match="nowhere"):
        await DefaultPersonalDataFinder(encoders, model=tmp_path / "nowhere").find("anything")


async def test_two_texts_at_once_are_both_searched(encoders):
    finder = DefaultPersonalDataFinder(encoders)
    first, second = await asyncio.gather(finder.find("I am Anna Kowalska"), finder.find("nothing in it"))
    assert [each.type for each in first] == ["PERSON"]
    assert second == []


def spans(*told):
    return [PersonalDataSpan(*each) for each in told]


async def test_a_sure_form_beats_the_head_where_they_overlap():
    merged = merge_findings(
        spans(("IBAN_CODE", 5, 27, 0.95)), spans(("STREET_ADDRESS", 5, 20, 0.99)), "x" * 40, 0.7
    )
    assert merged == spans(("IBAN_CODE", 5, 27, 0.95))


async def test_an_unsure_form_gives_way_to_a_sure_head():
    merged = merge_findings(
        spans(("PHONE_NUMBER", 3, 8, 0.4)), spans(("DATE_TIME", 0, 10, 0.9)), "x" * 40, 0.7
    )
    assert merged == spans(("DATE_TIME", 0, 10, 0.9))


async def test_of_a_name_that_runs_into_a_form_the_rest_stays():
    text = "John Smith john@example.com"
    merged = merge_findings(spans(("EMAIL_ADDRESS", 11, 27, 0.99)), spans(("PERSON", 0, 15, 0.9)), text, 0.7)
    assert merged == spans(("PERSON", 0, 10, 0.9), ("EMAIL_ADDRESS", 11, 27, 0.99))


@pytest.mark.parametrize(
    ("label", "published"),
    [
        ("B-PER", "PERSON"),
        ("GIVENNAME", "PERSON"),
        ("org", "ORGANIZATION"),
        ("I-STREET", "STREET_ADDRESS"),
        ("X", "X"),
    ],
)
async def test_labels_are_folded_to_the_published_types(label, published):
    assert published_type(label) == published


async def test_a_text_that_is_read_in_parts_keeps_its_positions(encoders, monkeypatch):
    monkeypatch.setattr("radixway.semantics.guard.pii.finder.SHARED_CHARACTERS", 60)
    monkeypatch.setattr("radixway.semantics.guard.pii.finder._INLINE", 30)
    text = "Nothing happens in this sentence, nor in the next one.\n" * 2 + "I am Maria Lopez from the bank."
    found = [each for each in await DefaultPersonalDataFinder(encoders).find(text) if each.type == "PERSON"]
    assert [text[each.begin : each.end] for each in found] == ["Maria Lopez"]


async def test_a_token_classifier_by_path_stands_in_for_the_head_beside_the_recognisers(encoders, tmp_path):
    labels = {0: "O", 1: "B-GIVENNAME", 2: "I-GIVENNAME"}
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForTokenClassification(BertConfig(vocab_size=30522, **shape, id2label=labels))
    model.classifier.weight.data.zero_()
    model.classifier.bias.data = torch.tensor([0.0, 9.0, 0.0])
    model.save_pretrained(tmp_path)
    shutil.copy(find_model(MINILM) / "tokenizer.json", tmp_path)
    finder = DefaultPersonalDataFinder(encoders, model=tmp_path)
    text = "Ada: ada@example.com"
    found = await finder.find(text)
    assert [(each.type, text[each.begin : each.end]) for each in found] == [
        ("PERSON", "Ada"),
        ("EMAIL_ADDRESS", "ada@example.com"),
    ]
    assert "PERSON" in finder.types


async def test_a_name_far_into_a_long_text_is_found_where_it_stands(encoders):
    filler = "The meeting was moved because the room is too small for the whole group.\n" * 60
    text = f"{filler}Please call my colleague Maria Lopez about it.\n{filler}"
    found = [each for each in await DefaultPersonalDataFinder(encoders).find(text) if each.confidence >= 0.7]
    assert [text[each.begin : each.end] for each in found] == ["Maria Lopez"]
