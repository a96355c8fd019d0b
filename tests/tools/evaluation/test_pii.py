import asyncio
import json

import pytest
from typer.testing import CliRunner

from evaluation.commands import app
from evaluation.pii import ROWS, Labelled, LabelledText, evaluate_pii, read_rows
from radixway.core.pipeline import PersonalDataSpan


def figures_of(rows, findings, threshold=0.7):
    async def find(text):
        return findings.get(text, [])

    return asyncio.run(evaluate_pii(find, rows, threshold))


def test_a_span_that_overlaps_counts_once_and_is_not_exact():
    rows = [LabelledText("a John Smith b", (Labelled("PERSON", 2, 12),), "one")]
    counts = figures_of(rows, {"a John Smith b": [PersonalDataSpan("PERSON", 2, 6, 0.9)]})["one"].types[
        "PERSON"
    ]
    assert (counts.precision, counts.recall, counts.overlap_f1, counts.exact_f1) == (1, 1, 1, 0)


def test_findings_below_the_threshold_and_types_the_set_does_not_label_are_not_counted():
    rows = [LabelledText("John", (Labelled("PERSON", 0, 4),), "one")]
    found = {"John": [PersonalDataSpan("PERSON", 0, 4, 0.6), PersonalDataSpan("GPE", 0, 4, 0.9)]}
    counts = figures_of(rows, found)["one"]
    assert (counts.types["PERSON"].recall, list(counts.types)) == (0, ["PERSON"])


def test_a_person_is_no_false_alarm_where_somebody_is_named():
    rows = [LabelledText("nobody", (), "free", True), LabelledText("Caesar", (), "free", False)]
    found = {
        text: [PersonalDataSpan("PERSON", 0, 6, 0.9), PersonalDataSpan("AGE", 0, 1, 0.9)]
        for text in ("nobody", "Caesar")
    }
    figures = figures_of(rows, found)["free"]
    assert (figures.share_flagged("PERSON"), figures.share_flagged("AGE")) == (1.0, 1.0)
    assert figures.flagged == {"PERSON": 1, "AGE": 2}


def test_parts_of_one_address_are_one_and_other_names_are_folded(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"text": "12 Main St\\n Apt 4", "spans": [{"type": "ADDRESS", "start": 0, "end": 10},'
        ' {"type": "ADDRESS", "start": 12, "end": 17}, {"type": "TITLE", "begin": 3, "end": 4}]}\n'
    )
    assert read_rows(path) == [
        LabelledText("12 Main St\n Apt 4", (Labelled("STREET_ADDRESS", 0, 17),), "rows")
    ]


def test_a_whole_address_is_one_span_however_its_parts_are_labelled():
    text = "12 Main St, Springfield"
    apart = (Labelled("STREET_ADDRESS", 0, 10), Labelled("GPE", 12, 23))
    found = {text: [PersonalDataSpan("STREET_ADDRESS", 0, 23, 0.9)]}
    counts = figures_of([LabelledText(text, apart, "one")], found)["one"].types
    assert list(counts) == ["STREET_ADDRESS"]
    assert counts["STREET_ADDRESS"].exact == counts["STREET_ADDRESS"].labelled == 1


@pytest.mark.parametrize(
    "line", ["[]", "{}", '{"text": 1, "spans": []}', '{"text": "a", "spans": [{"type": "AGE"}]}', "{"]
)
def test_a_row_that_is_none_is_named_by_its_line(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "spans": []}\n' + line + "\n")
    with pytest.raises(ValueError, match="line 2"):
        read_rows(path)


def test_the_command_tells_figures_by_type_and_what_is_flagged(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"text": "My name is Maria Lopez.", "spans": [{"type": "PERSON", "begin": 11, "end": 22}]}\n'
        '{"text": "How does a hash map work?", "spans": [], "names_nobody": true}\n'
    )
    told, drawn = tmp_path / "told.json", tmp_path / "drawn.svg"
    options = ["--data", str(rows), "--json", str(told), "--plot", str(drawn)]
    result = CliRunner().invoke(app, ["guard", "pii", *options])
    assert result.exit_code == 0, result.output
    figures = json.loads(told.read_text())["rows"]
    assert (figures["types"]["PERSON"]["exact_f1"], figures["nobody"], figures["flagged"]) == (1.0, 1, {})
    assert drawn.read_text().startswith("<?xml")
    assert "Maria" not in result.output + told.read_text()


def test_the_command_names_a_file_that_is_none(tmp_path):
    result = CliRunner().invoke(app, ["guard", "pii", "--data", str(tmp_path / "none.jsonl")])
    assert result.exit_code == 2
    assert "none.jsonl" in result.output


def test_the_sample_that_ships_can_be_read_and_has_both_languages_and_rows_that_name_nobody():
    rows = read_rows(ROWS)
    assert {"prompts_en", "prompts_zh", "wikigold", "free"} == {row.set for row in rows}
    assert sum(row.names_nobody is True for row in rows) > 150
    assert all(0 <= span.begin < span.end <= len(row.text) for row in rows for span in row.spans)
