"""What stands where recognisers and the head find the same stretch."""

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.finder import merge_findings

ADDRESS = PersonalDataSpan("STREET_ADDRESS", 0, 40, 0.8)
TEXT = "x" * 60


def test_streets_and_postal_codes_within_an_address_are_parts_of_it():
    street, code = PersonalDataSpan("STREET_ADDRESS", 0, 12, 0.85), PersonalDataSpan("ZIP_CODE", 35, 40, 0.85)
    assert merge_findings([street, code], [ADDRESS], TEXT, 0.7) == [ADDRESS]


def test_a_postal_code_that_is_called_one_or_that_stands_beside_the_address_is_one():
    called, beside = PersonalDataSpan("ZIP_CODE", 30, 35, 0.9), PersonalDataSpan("ZIP_CODE", 42, 47, 0.85)
    assert [each.type for each in merge_findings([called, beside], [ADDRESS], TEXT, 0.7)] == [
        "STREET_ADDRESS",
        "ZIP_CODE",
        "ZIP_CODE",
    ]


def test_an_address_that_the_head_is_not_sure_of_has_no_parts():
    code = PersonalDataSpan("ZIP_CODE", 35, 40, 0.85)
    doubtful = PersonalDataSpan("STREET_ADDRESS", 0, 40, 0.5)
    assert code in merge_findings([code], [doubtful], TEXT, 0.7)
