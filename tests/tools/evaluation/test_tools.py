"""`python tools/evaluate.py tools`: how queries are parted, what is counted, and what is said of bad rows."""

import gzip
import json
import random
import re

import pytest
from typer.testing import CliRunner

from evaluation.commands import app
from evaluation.tool_queries import Query, near_duplicates, part, read_queries, read_tools
from evaluation.tools import QUERIES, TOOLS, evaluate_tools
from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import load_encoder

TOOL_ROWS = [
    {"tool": "weather", "description": "Current weather and forecast for any place"},
    {"tool": "mail", "description": "Send an email message to somebody"},
    {"tool": "stocks", "description": "Quotes of shares at the exchange"},
]
ROWS = [
    *({"query": q, "tool": "weather"} for q in ("Will it rain?", "How hot is Rome?", "Any snow in Oslo?")),
    *({"query": q, "tool": "mail"} for q in ("Write to Anna", "Tell Bob by email", "Send this letter")),
    *({"query": q, "tool": "stocks"} for q in ("Price of Apple", "What is BMW worth?", "Tesla's quote")),
    {"query": "Mail me the weather", "tool": ["weather", "mail"]},
    {
        "messages": [{"role": "user", "content": "How is the weather?"}],
        "tools": [{"name": "w", "description": "The weather"}, {"name": "s", "description": "Shares"}],
        "expected": ["w"],
    },
    {
        "messages": [{"role": "user", "content": "Who was Caesar?"}],
        "tools": [{"name": "s", "description": "The price of shares"}],
        "expected": [],
    },
]


def written(path, rows):
    text = "\n".join(json.dumps(row) for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(EncodersConfig(backend="numpy"))


class VectorsOf(dict):
    def __init__(self, encoder):
        self._encoder = encoder

    def __missing__(self, text):
        return self._encoder.encode([text])[0].vector


def test_near_duplicates_are_one_group_by_words_or_by_vector_and_in_chains(encoder):
    texts = [
        "Will it rain in Rome?",
        "Price of Apple",
        "Will it rain in Rome today?",
        "Is rain coming to Rome?",
    ]
    groups = near_duplicates(texts, VectorsOf(encoder))
    assert [texts[0], texts[2]] in [group[:2] for group in groups]
    assert ["Price of Apple"] in groups


def test_no_group_is_on_both_sides_and_no_query_is_lost(encoder):
    vectors = VectorsOf(encoder)
    queries = [Query(f"Will it rain in {city} tomorrow?", ("weather",)) for city in ("Rome", "Oslo", "Bonn")]
    queries += [
        Query(text, ("weather",)) for text in ("How hot is Rome?", "Any snow?", "Storm warnings", "Fog")
    ]
    taught, test = part(queries, vectors, random.Random(1))
    held = {query.text for query in test}
    for group in near_duplicates([query.text for query in queries], vectors):
        assert held.issuperset(group) or held.isdisjoint(group)
    assert not held & set(taught["weather"]) and taught["weather"] and held


def test_figures_count_what_was_offered(encoder, tmp_path):
    tools = read_tools(written(tmp_path / "tools.jsonl", TOOL_ROWS))
    queries = read_queries(written(tmp_path / "rows.jsonl.gz", ROWS))
    figures = evaluate_tools(encoder, tools, queries, examples=1)
    assert figures.tools == 3 and figures.examples == 1
    assert figures.one.queries == 3
    assert figures.one.at["vectors and words, examples"][3] == 1
    assert figures.several.queries == 1 and figures.several.at["vectors and words"][1] == 0
    assert figures.several.at["vectors and words"][3] == 1
    assert figures.lists.queries == 1 and figures.lists.at["vectors and words"][1] == 1
    assert figures.tokens[3] == figures.tokens[10] == 1 and 0 < figures.tokens[1] < 1
    none, *_, most = figures.thresholds
    assert none.right_in_lists == 1 and none.offered_with == 3
    assert most.right_with <= none.right_with and most.offered_with < 3


def test_a_query_for_a_tool_that_there_is_not_is_told(encoder):
    with pytest.raises(ValueError, match="no tool is named 'none'"):
        evaluate_tools(encoder, [], [Query("q", ("none",))])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "line 2: not JSON"),
        ("[]", "line 2: not an object"),
        ('{"query": "q"}', "line 2: needs query and tool"),
        ('{"messages": [], "tools": [], "expected": []}', "line 2: needs query and tool"),
        ('{"messages": [{"content": "q"}], "tools": [{"name": 1}], "expected": []}', "line 2: needs strings"),
    ],
)
def test_a_bad_row_is_told_by_its_line(tmp_path, line, said):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"query": "q", "tool": "t"}}\n{line}\n')
    with pytest.raises(ValueError, match=re.escape(f"{path}, {said}")):
        read_queries(path)


def test_what_ships_is_whole():
    names = {tool.name for tool in read_tools(TOOLS)}
    queries = [query for path in QUERIES for query in read_queries(path)]
    assert len(names) == 199
    assert all(names.issuperset(query.wanted) for query in queries if not query.own)
    assert {bool(query.wanted) for query in queries if query.own} == {True, False}


def test_the_command_prints_tables_and_writes_figures(tmp_path):
    data, tools = written(tmp_path / "rows.jsonl", ROWS), written(tmp_path / "tools.jsonl", TOOL_ROWS)
    told = tmp_path / "figures.json"
    arguments = ["tools", "--data", data, "--tools", tools, "--examples", 1, "--json", told]
    arguments += ["--plot", tmp_path / "figures.svg"]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert json.loads(told.read_text())["one"]["at"].keys() >= {
        "the description's cosine",
        "vectors and words",
    }
    drawn = (tmp_path / "figures.svg").read_text()
    assert all(line in drawn for line in ("several wanted, all found", "false offers"))


def test_the_command_ends_with_one_sentence_where_there_is_no_file(tmp_path):
    result = CliRunner().invoke(app, ["tools", "--data", str(tmp_path / "none")])
    assert result.exit_code == 2
