from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.sequence_tagger import join_address_parts


def joined(text, *parts):
    """Parts by their type and text, found in that order; what they become."""
    found, at = [], 0
    for kind, value in parts:
        begin = text.index(value, at)
        at = begin + len(value)
        found.append(PersonalDataSpan(kind, begin, at, 0.9))
    return [(each.type, text[each.begin : each.end]) for each in join_address_parts(found, text)]


def test_a_street_its_place_and_its_code_are_one_address():
    text = "to 12 Main St, Springfield, IL 62704 today"
    parts = [("STREET_ADDRESS", "12 Main St"), ("GPE", "Springfield"), ("ZIP_CODE", "62704")]
    assert joined(text, *parts) == [("STREET_ADDRESS", "12 Main St, Springfield, IL 62704")]


def test_a_place_after_other_words_stands_for_itself():
    parts = [("STREET_ADDRESS", "Main St"), ("GPE", "Springfield")]
    assert joined("Main St in Springfield", *parts) == parts


def test_a_place_on_a_line_of_its_own_stands_for_itself():
    parts = [("STREET_ADDRESS", "Main St 5"), ("GPE", "Norway")]
    assert joined("Main St 5\nNorway", *parts) == parts


def test_what_stands_before_the_street_is_not_joined():
    parts = [("GPE", "Springfield"), ("STREET_ADDRESS", "Main St")]
    assert joined("Springfield, Main St", *parts) == parts


def test_in_chinese_a_place_directly_before_a_street_is_part_of_the_address():
    parts = [("GPE", "杭州市"), ("STREET_ADDRESS", "文三路12号")]
    assert joined("住杭州市文三路12号。", *parts) == [("STREET_ADDRESS", "杭州市文三路12号")]


def test_the_word_for_a_street_is_part_of_it_unless_it_is_something_else():
    parts = [("STREET_ADDRESS", "12 Main"), ("GPE", "Boston")]
    assert joined("12 Main Street, Boston", *parts) == [("STREET_ADDRESS", "12 Main Street, Boston")]
    parts = [("STREET_ADDRESS", "12 Main"), ("ORGANIZATION", "Court of Auditors")]
    assert joined("12 Main Court of Auditors", *parts) == parts
