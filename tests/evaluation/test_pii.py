import asyncio

import pytest

from radixway.evaluation.pii import Labelled, LabelledText, evaluate_pii, read_rows
from radixway.pipeline import PersonalData


def figures_of(rows, findings, threshold=0.7):
    async def find(text):
        return findings.get(text, [])

    return asyncio.run(evaluate_pii(find, rows, threshold))


def test_a_span_that_overlaps_counts_once_and_is_not_exact():
    rows = [LabelledText("a John Smith b", (Labelled("PERSON", 2, 12),), "one")]
    counts = figures_of(rows, {"a John Smith b": [PersonalData("PERSON", 2, 6, 0.9)]})["one"].types["PERSON"]
    assert (counts.precision, counts.recall, counts.overlap_f1, counts.exact_f1) == (1, 1, 1, 0)


def test_findings_below_the_threshold_and_types_the_set_does_not_label_are_not_counted():
    rows = [LabelledText("John", (Labelled("PERSON", 0, 4),), "one")]
    found = {"John": [PersonalData("PERSON", 0, 4, 0.6), PersonalData("GPE", 0, 4, 0.9)]}
    counts = figures_of(rows, found)["one"]
    assert (counts.types["PERSON"].recall, list(counts.types)) == (0, ["PERSON"])


def test_a_person_is_no_false_alarm_where_somebody_is_named():
    rows = [LabelledText("nobody", (), "free", True), LabelledText("Caesar", (), "free", False)]
    found = {
        text: [PersonalData("PERSON", 0, 6, 0.9), PersonalData("AGE", 0, 1, 0.9)]
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


@pytest.mark.parametrize(
    "line", ["[]", "{}", '{"text": 1, "spans": []}', '{"text": "a", "spans": [{"type": "AGE"}]}', "{"]
)
def test_a_row_that_is_none_is_named_by_its_line(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "spans": []}\n' + line + "\n")
    with pytest.raises(ValueError, match="line 2"):
        read_rows(path)
