"""Masks and placeholders: what the model sees in place of personal data, and what the client sees again."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.redaction import PlaceholderRestorer, PlaceholderVault, mask_text, replace_spans

EMAIL = re.compile(r"[\w.]+@[\w.]+\w")
PERSON = re.compile(r"Anna Weber|ANNA WEBER|Jo Li|李雷")


def found_in(text):
    found = [PersonalDataSpan("EMAIL_ADDRESS", *m.span(), 1.0) for m in EMAIL.finditer(text)]
    found += [PersonalDataSpan("PERSON", *m.span(), 0.9) for m in PERSON.finditer(text)]
    return sorted(found, key=lambda each: each.begin)


def redacted(*texts, **more):
    vault = PlaceholderVault(texts, **more)
    new = [
        replace_spans(
            text,
            [(f.begin, f.end, vault.add_placeholder(f, text[f.begin : f.end], ())) for f in found_in(text)],
        )
        for text in texts
    ]
    return new, vault


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("stars", "I am *****, *****!"),
        ("same_length", "I am **** *****, *********!"),
        ("type", "I am <PERSON>, <EMAIL_ADDRESS>!"),
    ],
)
def test_a_mask_hides_what_was_found_and_nothing_else(style, expected):
    text = "I am Anna Weber, anna@x.de!"
    spans = [(f.begin, f.end, mask_text(f.type, text[f.begin : f.end], style)) for f in found_in(text)]
    assert replace_spans(text, spans) == expected


def test_the_same_text_has_the_same_placeholder_and_different_ones_differ():
    texts, vault = redacted("Anna Weber and Jo Li", "Jo Li wrote to Anna Weber", "ANNA WEBER shouts")
    assert texts == ["[PERSON_1] and [PERSON_2]", "[PERSON_2] wrote to [PERSON_1]", "[PERSON_3] shouts"]
    assert (
        vault.restore_text(" ".join(texts))
        == "Anna Weber and Jo Li Jo Li wrote to Anna Weber ANNA WEBER shouts"
    )


def test_addresses_are_the_same_in_any_letter_case():
    texts, vault = redacted("Anna@X.de, anna@x.de")
    assert texts == ["[EMAIL_ADDRESS_1], [EMAIL_ADDRESS_1]"]
    assert vault.restore_text(texts[0]) == "Anna@X.de, Anna@X.de"


def test_a_conversation_told_again_and_longer_has_the_same_placeholders():
    first, _ = redacted("Anna Weber, anna@x.de")
    again, _ = redacted("Anna Weber, anna@x.de", "hello", "and jo@y.org, Jo Li")
    assert again[0] == first[0]
    assert again[2] == "and [EMAIL_ADDRESS_2], [PERSON_2]"


@pytest.mark.parametrize("there", ["[PERSON_1]", "[person 1]", r"\[Person\_1\]", "[ PERSON-1 ]"])
def test_a_placeholder_never_collides_with_what_the_request_says_itself(there):
    texts, vault = redacted("Anna Weber", f"what does {there} mean?")
    assert texts[0] == "[PERSON_2]"
    assert vault.restore_text(f"{there} is [PERSON_2]") == f"{there} is Anna Weber"


@pytest.mark.parametrize(
    "spelled",
    [
        *("[EMAIL_ADDRESS_1]", "[email_address_1]", "[Email Address 1]", "[ EMAIL_ADDRESS_1 ]"),
        *("[EMAIL-ADDRESS-1]", r"\[EMAIL\_ADDRESS\_1\]", "[EMAIL_ADDRESS 1]", "[EmailAddress1]"),
    ],
)
def test_a_placeholder_is_known_in_the_spellings_of_models(spelled):
    _, vault = redacted("anna@x.de")
    assert vault.restore_text(f"to {spelled}.") == "to anna@x.de."


def test_what_is_no_placeholder_stays():
    _, vault = redacted("Anna Weber")
    text = "[PERSON_2] [PERSON_11] PERSON_1 [1] a[0] [x](y) \\"
    assert vault.restore_text(text) == text


def test_arguments_of_tool_calls_stay_json_both_ways():
    value = 'Jo "the \\ one" Li'
    vault = PlaceholderVault()
    place = ("messages", 1, "tool_calls", 0, "function", "arguments")
    assert (
        vault.add_placeholder(PersonalDataSpan("PERSON", 9, 28, 1.0), json.dumps(value)[1:-1], place)
        == "[PERSON_1]"
    )
    assert vault.restore_text("[PERSON_1]") == value
    assert json.loads(vault.restore_text('{"to": "[PERSON_1]"}', in_json=True)) == {"to": value}


def test_a_vault_is_bounded_and_says_nothing_of_what_it_holds():
    texts, vault = redacted("Anna Weber, Jo Li, 李雷, Anna Weber", max_placeholders=2)
    assert texts == ["[PERSON_1], [PERSON_2], <PERSON>, [PERSON_1]"]
    assert repr(vault) == "<PlaceholderVault of 2>"


def test_a_type_of_any_name_makes_a_placeholder():
    vault = PlaceholderVault()
    placeholder = vault.add_placeholder(PersonalDataSpan("b-kunden/nr", 0, 4, 1.0), "4711", ())
    assert placeholder == "[B_KUNDEN_NR_1]"
    assert vault.restore_text(placeholder) == "4711"


WORDS = st.sampled_from(
    [
        *("[PERSON_1]", "[person 2]", r"\[EMAIL\_ADDRESS\_1\]", "[PERSON_12]", "[", "]", "\\", "[[", "[PER"),
        *("[P](x)", " ", "hello", "_1]", "[EMAIL", " ADDRESS 1]", "\\[", "1", "PERSON", "[ ", "\n", "李"),
    ]
)


@given(st.lists(WORDS, max_size=12).map("".join), st.data())
def test_however_an_answer_is_divided_the_same_is_restored(answer, data):
    vault = VAULT
    restorer, said, at = PlaceholderRestorer(vault), "", 0
    while at < len(answer):
        end = data.draw(st.integers(at + 1, len(answer)))
        parts = restorer.restore_delta(answer[at:end])
        said += "".join(part.text for part in parts)
        at = end
    said += "".join(part.text for part in restorer.restore_rest())
    assert said == vault.restore_text(answer)


_, VAULT = redacted("Anna Weber, Jo Li, anna@x.de")


def test_every_split_of_a_placeholder_restores_it():
    assert isinstance(VAULT, PlaceholderVault)
    text = "ask [PERSON_1] today"
    for cut in range(len(text)):
        restorer = PlaceholderRestorer(VAULT)
        parts = [
            *restorer.restore_delta(text[:cut]),
            *restorer.restore_delta(text[cut:]),
            *restorer.restore_rest(),
        ]
        assert "".join(part.text for part in parts) == "ask Anna Weber today"
        assert "".join(part.written for part in parts) == text


def test_nothing_that_may_be_a_placeholder_leaves_early_and_nothing_else_waits():
    restorer = PlaceholderRestorer(VAULT)
    assert [part.text for part in restorer.restore_delta("see [1] and [PERS")] == ["see [1] and "]
    assert [part.text for part in restorer.restore_delta("ONAL]")] == ["[PERSONAL]"]
