"""Recognisers take time linear in the text, whatever is in it: shown by patterns and by counting calls."""

import importlib
import pkgutil
import re
import sys
from re import _constants, _parser

import pytest

from radixway.semantics.guard.pii import recognisers
from radixway.semantics.guard.pii.recognisers import find_structured
from radixway.semantics.guard.pii.recognisers.plain_text import ContextWords

LONGEST_BOUNDED = 500

ENTERED_ONCE = {
    # These scan a text by themselves. They are a single set of characters, or what precedes their beginning
    # keeps them from being entered within a run.
    "domains._EMAIL",
    "domains._NAME",
    "ip_addresses._V6",
    "plain_text._DIGITS",
    "bank_numbers._DIGITS",
    "bank_numbers._NOT_DIGIT",
    "phones._NUMBER",
}


def patterns():
    for module in pkgutil.iter_modules(recognisers.__path__):
        loaded = importlib.import_module(f"{recognisers.__name__}.{module.name}")
        for name, value in vars(loaded).items():
            for pattern in _patterns_in(value):
                yield f"{module.name}.{name}", pattern


def _patterns_in(value):
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, ContextWords):
        yield value._pattern
    elif isinstance(value, tuple):
        for each in value:
            yield from _patterns_in(each)


def parsed(pattern):
    return _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)


def gives_back(tree):
    """Whether a quantifier without bound may give back what it took, and try again."""
    for operation, argument in tree:
        if (
            operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
            and argument[1] == _constants.MAXREPEAT
        ):
            return True
        if any(gives_back(each) for each in _trees_in(argument)):
            return True
    return False


def _trees_in(argument):
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from _trees_in(each)


def test_a_pattern_that_is_tried_at_many_places_is_of_bounded_length():
    lengths = {
        name: parsed(pattern).getwidth()[1] for name, pattern in patterns() if name not in ENTERED_ONCE
    }
    assert len(lengths) > 30
    assert {name: length for name, length in lengths.items() if length > LONGEST_BOUNDED} == {}


def test_a_pattern_without_bound_keeps_what_it_took():
    found = dict(patterns())
    assert set(found) >= ENTERED_ONCE
    single_sets = {"plain_text._DIGITS", "bank_numbers._DIGITS", "bank_numbers._NOT_DIGIT", "phones._NUMBER"}
    assert [name for name in ENTERED_ONCE - single_sets if gives_back(parsed(found[name]))] == []


def calls(text):
    """How many functions were called, Python's own included."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        find_structured(text)
    finally:
        sys.setprofile(None)
    return count


PIECES = """1|@|a@|x@a.|.a|a-|1 |1-|1.|12:|::|+1 |001 1 |(1) |aA1|GB82 |415-555-2671 |4111 1111 1111 1111 |
1.2.3.4 |路1号|7月|1 Main St |12 May |d1234567 license |１"""


@pytest.mark.parametrize("piece", [*PIECES.replace("\n", "").split("|"), "\u200b1"])
def test_twice_the_text_is_no_more_than_twice_the_work(piece):
    find_structured(piece * 10)
    short, long = (calls(piece * (characters // len(piece))) for characters in (1_000, 2_000))
    assert long <= 2.1 * short + 100


def test_100_kb_of_the_same_character_are_read_to_their_end():
    assert find_structured("1" * 100_000) == find_structured("@" * 100_000) == []
