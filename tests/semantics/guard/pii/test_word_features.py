import numpy as np

from radixway.semantics.guard.pii.chinese_tagger import BIT as CHINESE
from radixway.semantics.guard.pii.chinese_tagger import WritingScript, detect_script, split_units
from radixway.semantics.guard.pii.labels import SOFT_TYPES
from radixway.semantics.guard.pii.sequence_tagger import (
    TAGS,
    TaggerConvolutions,
    decode_spans,
    feature_matrix,
)
from radixway.semantics.guard.pii.word_features import BIT, WordSpans, split_words, word_bits


def words_of(text, *pieces):
    """`pieces`: pairs of where each begins and ends."""
    return split_words(text, np.array(pieces, np.int32).reshape(-1, 2))


def features(text, *pieces):
    words = words_of(text, *pieces)
    bits = word_bits(text, words, len(pieces))
    return [{name for name, bit in BIT.items() if each & bit} for each in bits.tolist()]


def test_pieces_without_a_gap_are_one_word_and_marks_stand_alone():
    words = words_of("Lopez's cat", (0, 2), (2, 5), (5, 6), (6, 7), (8, 11))
    assert list(zip(words.begin.tolist(), words.end.tolist(), strict=True)) == [
        (0, 5),
        (5, 6),
        (6, 7),
        (8, 11),
    ]


def test_a_words_vector_is_the_mean_of_its_pieces():
    words = words_of("Lopez cat", (0, 2), (2, 5), (6, 9))
    pooled = words.pool_states(np.array([[1.0], [3.0], [7.0]], np.float32))
    assert pooled.tolist() == [[2.0], [7.0]]


def test_what_a_word_looks_like_and_is_known_as_is_told():
    first, second, third, fourth = features("Maria, 12\nBerlin", (0, 5), (5, 6), (7, 9), (10, 16))
    assert {"capitalised", "first name", "line before", "sentence before"} <= first
    assert "," in second and "space before" not in second
    assert {"number", "2 digits", "line after"} <= third
    assert {"place", "line before"} <= fourth


def test_names_of_several_words_are_known_by_all_of_them():
    told = features("in New York now", (0, 2), (3, 6), (7, 11), (12, 15))
    assert ["place of several words" in each for each in told] == [False, True, True, False]


def test_every_bit_is_a_column():
    bits = np.array([0, (1 << len(BIT)) - 1], np.int64)
    assert feature_matrix(bits, len(BIT)).sum(axis=1).tolist() == [0, len(BIT)]


def likelihoods(*tags):
    """One word each, nearly sure of its tag."""
    rows = np.full((len(tags), len(TAGS)), 0.001, np.float32)
    for row, tag in zip(rows, tags, strict=True):
        row[TAGS.index(tag)] = 1 - 0.001 * (len(TAGS) - 1)
    return rows


def spans(*tags):
    return [(each.type, each.begin, each.end) for each in decode_spans(likelihoods(*tags))]


def test_what_begins_anew_is_another_span():
    assert spans("B-PERSON", "I-PERSON", "B-PERSON", "O", "B-GPE") == [
        ("PERSON", 0, 2),
        ("PERSON", 2, 3),
        ("GPE", 4, 5),
    ]


def test_a_span_does_not_change_its_type_on_the_way():
    found = spans("B-STREET_ADDRESS", "I-STREET_ADDRESS", "I-GPE", "I-STREET_ADDRESS")
    assert [(begin, end) for _, begin, end in found][-1][1] == 4
    assert all(kind in SOFT_TYPES for kind, _, _ in found)
    assert found[0] == ("STREET_ADDRESS", 0, 4)


def test_a_doubtful_word_inside_a_span_stays_in_it():
    likely = likelihoods("B-PERSON", "O", "I-PERSON")
    likely[1] = 0
    likely[1, [0, TAGS.index("I-PERSON")]] = 0.5, 0.5
    assert [(each.begin, each.end) for each in decode_spans(likely)] == [(0, 3)]


def test_scripts_are_told_apart():
    assert detect_script("Hello Москва") is WritingScript.LATIN
    assert detect_script("你好") is WritingScript.CHINESE_ALONE
    assert detect_script("我在Google上班") is WritingScript.MOSTLY_CHINESE
    assert detect_script("My friend is called 小明 there") is WritingScript.MOSTLY_LATIN


def test_chinese_is_divided_into_characters_numbers_and_words():
    text = "王明 2023年iOS"
    units = split_units(text)
    assert [text[b:e] for b, e in zip(units.begin, units.end, strict=True)] == [
        "王",
        "明",
        "2023",
        "年",
        "iOS",
    ]
    assert units.bits[0] & CHINESE["begins surnames"]
    assert units.bits[2] & CHINESE["digit 4"]


def test_a_listed_place_is_marked_to_its_end():
    marks = split_units("去哈尔滨玩").bits
    assert [bool(each & CHINESE["in cities"]) for each in marks] == [False, False, True, True, False]


def test_the_convolutions_see_two_words_on_either_side():
    size = 1
    weights = np.arange(5, dtype=np.float32).reshape(5, size)
    nothing = np.zeros(size, np.float32)
    out = np.zeros((size, 2), np.float32)
    out[0, 1] = 1
    layers = TaggerConvolutions(
        weights, nothing, np.zeros_like(weights), nothing, out, np.zeros(2, np.float32)
    )
    hidden = np.array([[1.0], [0], [0], [0]], np.float32)
    likely = layers.likelihoods(hidden)
    odds = np.log(likely[:, 1] / likely[:, 0])
    # A word's own value, and 2 times it for the word itself, 1 for the next, 0 for the one after that.
    assert np.round(odds, 4).tolist() == [3.0, 1.0, 0.0, 0.0]


def test_nothing_is_made_of_no_words():
    assert len(words_of("")) == 0
    assert len(WordSpans(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))) == 0


def test_peoples_faiths_and_parties_are_marked_beside_nationalities():
    marked = features("two Yorubas", (0, 3), (4, 11))
    assert "nrp" not in marked[0] and "nrp" in marked[1]
    assert split_units("佛教").bits[0] & CHINESE["begins nrp"]
