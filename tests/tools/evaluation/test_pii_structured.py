"""What is counted when structured personal data is looked for in labelled texts."""

import json
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from evaluation.commands import app
from evaluation.pii_structured import count_structured
from radixway.core.pipeline import PersonalDataSpan

SAMPLE = Path(__file__).parents[2] / "data" / "guard" / "presidio_structured.jsonl"


@dataclass
class Span:
    type: str
    begin: int
    end: int


@dataclass
class Row:
    text: str
    spans: list[Span]


def finds(*found):
    return lambda text: [PersonalDataSpan(*each) for each in found]


def test_a_finding_that_overlaps_a_label_is_right_and_one_beside_it_is_not():
    rows = [Row("x" * 40, [Span("US_SSN", 5, 16)]), Row("y" * 40, [])]
    figures = count_structured(rows, find=finds(("US_SSN", 4, 10, 0.9), ("IP_ADDRESS", 20, 30, 0.9)))
    ssn = figures.types["US_SSN"]
    assert (ssn.labelled, ssn.reached, ssn.exact, ssn.found, ssn.right) == (1, 1, 0, 2, 1)
    assert (ssn.precision, ssn.recall) == (0.5, 1.0)
    assert figures.false == [(0, "IP_ADDRESS", 20, 30), (1, "US_SSN", 4, 10), (1, "IP_ADDRESS", 20, 30)]
    assert (figures.rows, figures.flagged, figures.flagged_share) == (2, 2, 1.0)


def test_findings_below_the_threshold_and_of_other_types_are_none():
    figures = count_structured([Row("x", [])], find=finds(("US_SSN", 0, 1, 0.6), ("AGE", 0, 1, 0.9)))
    assert figures.types == {} and figures.flagged == 0
    assert (figures.overall.precision, figures.overall.recall) == (None, None)


def test_a_postal_code_within_a_labelled_address_is_right():
    rows = [Row("x" * 40, [Span("STREET_ADDRESS", 0, 30)])]
    figures = count_structured(rows, find=finds(("ZIP_CODE", 25, 30, 0.9), ("ZIP_CODE", 28, 33, 0.9)))
    assert (figures.types["ZIP_CODE"].found, figures.types["ZIP_CODE"].right) == (2, 1)


def test_what_was_missed_is_told_by_its_place():
    figures = count_structured([Row("x" * 9, [Span("US_SSN", 2, 5), Span("PERSON", 6, 8)])], find=finds())
    assert figures.missed == [(0, "US_SSN", 2, 5)]


def test_structured_data_in_synthetic_texts_is_found_as_well_as_claimed():
    rows = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    figures = count_structured(Row(row["text"], [Span(**span) for span in row["spans"]]) for row in rows)
    assert figures.overall.labelled > 150
    assert figures.overall.recall >= 0.98 and figures.overall.precision >= 0.98


def test_the_command_tells_the_recognisers_figures(tmp_path):
    told = tmp_path / "figures.json"
    options = ["--structured", "--data", str(SAMPLE), "--json", str(told)]
    result = CliRunner().invoke(app, ["guard", "pii", *options])
    assert result.exit_code == 0, result.output
    assert "0 of 150 rows (0.00%) flagged" in " ".join(result.output.split())
    counts = json.loads(told.read_text())["presidio_structured"]["types"]["US_SSN"]
    assert counts["labelled"] == counts["reached"] == counts["exact"] > 0
