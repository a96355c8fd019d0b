"""Structural tags bind the parts of an answer that they name, and nothing else of it."""

import json
from typing import Any

import pytest

from radixway.core.http import BadBodyError
from radixway.core.tokenizer import Tokenizer
from radixway.engine.grammar_compiler import GrammarCompiler
from radixway.engine.server.structural_tags import make_structural_constraint
from support.scripted_engine import GUIDE
from support.server_served import Served

NUMBER = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
JSON = {"type": "json_schema", "json_schema": NUMBER}
WORD = {"type": "regex", "pattern": "[a-z]+/"}
AB = [{"type": "const_string", "value": letter} for letter in "ab"]
CALLS = [{"begin": f"<f={name}>", "content": JSON, "end": "</f>"} for name in ("one", "two")]
TRIGGERED = {"type": "triggered_tags", "triggers": ["<f="], "tags": CALLS}
SEPARATED = {"type": "tags_with_separator", "tags": CALLS, "separator": ","}
THOUGHT = {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"}
ONE, TWO = '<f=one>{"x": 1}</f>', '<f=two>{"x": 22}</f>'


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    tokenizer = Tokenizer.load(GUIDE)
    return GrammarCompiler(tokenizer, tokenizer.eos_token_ids, tokenizer.size)


def accepts(compiler: GrammarCompiler, tag: Any, text: str) -> bool:
    """Whether `text` may be the whole answer."""
    tokenizer = Tokenizer.load(GUIDE)
    eos = tokenizer.token_id("eos_token")
    matcher = compiler.compile_constraint(make_structural_constraint(tag, "tag")).make_matcher()
    for token in tokenizer.encode(text, add_special_tokens=False):
        if matcher.is_finished or not matcher.allowed_tokens(frozenset())[token]:
            return False
        matcher.accept_token(token)
    return matcher.is_finished or bool(matcher.allowed_tokens(frozenset({eos}))[eos])


@pytest.mark.parametrize(
    ("form", "taken", "refused"),
    [
        (AB[0], ["a"], ["b", "", "aa"]),
        (JSON, ['{"x": 5}'], ['{"x": "5"}', "5"]),
        (WORD, ["abc/"], ["abc", "/"]),
        ({"type": "regex", "pattern": r"a\/\\/b"}, ["a/\\/b"], ["a/", "a\\/"]),
        ({"type": "regex", "pattern": "a\nb|\\n"}, ["a\nb", "\n"], ["a", "anb"]),
        ({"type": "regex", "pattern": r"a\/b//[/]\\/"}, ["a/b///\\/"], ["a\\/b///\\/"]),
        ({"type": "any_text"}, ["", "anything <f= at all"], []),
        ({"type": "sequence", "elements": AB}, ["ab"], ["a", "ba"]),
        ({"type": "sequence", "elements": [AB[0], {"type": "any_text"}]}, ["a", "a b"], ["b"]),
        ({"type": "or", "elements": AB}, ["a", "b"], ["ab"]),
        ({"type": "optional", "content": AB[0]}, ["", "a"], ["aa"]),
        ({"type": "star", "content": AB[0]}, ["", "aaa"], ["b"]),
        ({"type": "plus", "content": AB[0]}, ["a", "aa"], [""]),
        ({"type": "repeat", "content": AB[0], "min": 2, "max": 3}, ["aa", "aaa"], ["a", "aaaa"]),
        ({"type": "repeat", "content": AB[0], "min": 1, "max": -1}, ["a", "aaaaa"], [""]),
        ({"type": "tag", **CALLS[0]}, [ONE], [TWO, ONE + ONE]),
        ({"type": "tag", **CALLS[0], "end": ["!", "?"]}, ['<f=one>{"x": 1}?'], [ONE]),
        ({"type": "sequence", "elements": [THOUGHT, JSON]}, ['<t>Hm, {</t>{"x": 1}'], ['{"x": 1}']),
        (TRIGGERED, ["", "just text", ONE, f"so: {ONE} and {TWO}."], ["<f=three>", '<f=one>{"y": 1}</f>']),
        ({**TRIGGERED, "at_least_one": True}, [ONE, f"so: {ONE}{TWO}."], ["", "just text"]),
        ({**TRIGGERED, "stop_after_first": True}, ["text", f"so: {ONE}"], [f"{ONE} more"]),
        (SEPARATED, ["", ONE, f"{ONE},{TWO}"], ["text", ONE + TWO, f"{ONE},"]),
        ({**SEPARATED, "at_least_one": True, "stop_after_first": True}, [ONE], ["", f"{ONE},{TWO}"]),
    ],
)
def test_answers_have_the_form(
    compiler: GrammarCompiler, form: dict[str, Any], taken: list[str], refused: list[str]
) -> None:
    tag = {"type": "structural_tag", "format": form}
    for each in (tag, json.dumps(tag)):
        assert [text for text in taken if not accepts(compiler, each, text)] == []
        assert [text for text in refused if accepts(compiler, each, text)] == []


def test_the_older_form_is_triggered_tags(compiler: GrammarCompiler) -> None:
    structures = [{"begin": tag["begin"], "schema": NUMBER, "end": tag["end"]} for tag in CALLS]
    tag = {"type": "structural_tag", "structures": structures, "triggers": ["<f="]}
    assert accepts(compiler, tag, f"so: {ONE} and {TWO}.")
    assert not accepts(compiler, tag, '<f=one>{"y": 1}</f>')


@pytest.mark.parametrize(
    ("form", "param"),
    [
        (None, "format"),
        ({}, "format.type"),
        ({"type": "dispatch", "rules": []}, "format.type"),
        ({"type": "grammar", "grammar": "root ::= 'a'"}, "format.type"),
        ({"type": "const_string"}, "format.value"),
        ({"type": "regex", "pattern": 5}, "format.pattern"),
        ({"type": "json_schema", "json_schema": 5}, "format.json_schema"),
        ({**JSON, "style": "qwen_xml"}, "format.style"),
        ({**JSON, "any_order": True}, "format.any_order"),
        ({"type": "any_text", "excludes": ["x"]}, "format.excludes"),
        ({"type": "sequence", "elements": []}, "format.elements"),
        ({"type": "sequence", "elements": [{"type": "any_text"}, AB[0]]}, "format.elements[0]"),
        ({"type": "repeat", "content": AB[0], "min": 2, "max": 1}, "format.max"),
        ({"type": "tag", "begin": {"type": "token"}, "content": JSON, "end": "x"}, "format.begin"),
        ({"type": "tag", "begin": "x", "content": JSON, "end": 5}, "format.end"),
        ({**THOUGHT, "end": ""}, "format.end"),
        ({**TRIGGERED, "triggers": ["<g="]}, "format.tags[0].begin"),
        ({**TRIGGERED, "tags": [5]}, "format.tags[0].begin"),
        ({"type": "sequence", "elements": [TRIGGERED, AB[0]]}, "format.elements[0]"),
    ],
)
def test_what_cannot_be_bound_names_its_part(form: Any, param: str) -> None:
    with pytest.raises(BadBodyError) as refused:
        make_structural_constraint({"type": "structural_tag", "format": form}, "tag")
    assert refused.value.param == f"tag.{param}"


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"type": "regex", "pattern": "a" * 20_000}, "tag.format.pattern"),
        ({**JSON, "json_schema": {"const": "a" * 70_000}}, "tag.format.json_schema"),
    ],
    ids=["pattern", "schema"],
)
def test_a_part_is_no_longer_than_a_constraint_may_be(form: Any, param: str) -> None:
    with pytest.raises(BadBodyError) as refused:
        make_structural_constraint({"format": form}, "tag")
    assert refused.value.param == param


@pytest.mark.asyncio(loop_scope="session")
async def test_every_surface_takes_tags(guide: Served) -> None:
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": AB}}
    for fields in ({"response_format": tag}, {"structured_outputs": {"structural_tag": json.dumps(tag)}}):
        assert (await guide.chat(**fields)).json()["choices"][0]["message"]["content"] == "ab"
    sampling = {"structural_tag": json.dumps(tag)}
    assert (await guide.post("/generate", {"text": "x", "sampling_params": sampling})).json()["text"] == "ab"
    error = (await guide.chat(response_format={**tag, "format": {"type": "regex", "pattern": "("}})).json()
    assert (error["error"]["param"], error["error"]["code"]) == ("response_format", "invalid_grammar")
