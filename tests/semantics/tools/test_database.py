"""`tools_db.json`: read as published, refused with path and line."""

import json
from pathlib import Path

import pytest

from radixway.core.config import ConfigError
from radixway.semantics.tools import load_tools

PUBLISHED = Path(__file__).parents[2] / "data" / "tools" / "tools_db.json"


def refused(tmp_path, text: str) -> str:
    path = tmp_path / "tools_db.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        load_tools(path)
    return str(told.value).removeprefix(str(path))


def test_the_published_form_loads_with_examples_beside_it():
    weather, *_, table, calendar = load_tools(PUBLISHED)
    assert weather.name == "get_weather" and weather.category == "weather" and "forecast" in weather.tags
    assert weather.description.startswith("Get current weather information, temperature")
    assert json.loads(bytes(weather.definition)) == json.loads(PUBLISHED.read_text())[0]["tool"]
    assert len(table.examples) == 2 and calendar.examples == ()


def test_a_tools_own_description_stands_in_for_one_of_the_entry(tmp_path):
    path = tmp_path / "tools_db.json"
    path.write_text('[{"tool": {"function": {"name": "f", "description": "Does it"}}}]')
    assert load_tools(path)[0].description == "Does it"


def test_an_empty_list_has_no_tools(tmp_path):
    path = tmp_path / "tools_db.json"
    path.write_text(" [ ]\n")
    assert load_tools(path) == ()


NAMED = '{"tool": {"function": {"name": "f"}}}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", ":1: the file must be a list of tools"),
        ("", ":1: the file must be a list of tools"),
        (f"[\n{NAMED},\n{NAMED}\n]", ":3: 1.tool.function.name: 'f' comes twice"),
        (f'[{NAMED},\n\n{{"tool": 1}}]', ":3: 1.tool: Expected `object`, got `int`"),
        ('[\n{"tool": {"function": {}}}]', ":2: 0.tool.function: Object missing required field `name`"),
        ('[{"tool": {"function": {"name": 7}}}]', ":1: 0.tool.function.name: Expected `str`, got `int`"),
        ('[\n\n{"tool": {}, "descripton": ""}]', ":3: 0: Object contains unknown field `descripton`"),
        (f'[{NAMED[:-1]}, "examples": [""]}}]', ":1: 0.examples[0]: Expected `str` of length >= 1"),
        (f"[{NAMED}\n{NAMED}]", ":2: not valid JSON: Expecting ',' or ']'"),
        (f"[{NAMED}]\n\nx", ":3: not valid JSON: Extra data"),
        ('[{"tool":\n{"function": {"name": "f",\n}}}]', ":3: not valid JSON: "),
        ('[{"tool": {"function": {"name": "f", "x": NaN}}}]', ":1: not valid JSON: NaN is no number"),
        ("[" * 100_000, ":1: not valid JSON: "),
        ('[{"tool": {"function": {"name": "f", "x": "\\ud800"}}}]', ":1: 0: it has half a character"),
        (f'[{NAMED[:-1]}, "tags": ["\\ud800"]}}]', ":1: 0: it has half a character"),
    ],
)
def test_a_mistake_is_told_by_path_and_line(tmp_path, text, said):
    assert refused(tmp_path, text).startswith(said)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_tools(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'["\xe9"]')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_tools(tmp_path / "latin.json")
