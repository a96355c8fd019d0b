"""Tables that fit: whatever the width, every figure that is shown is whole."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from radixway.core.telemetry.terminal import FittedTable, TableColumn

URLS = [f"http://model-server-{number}.inference.cluster.example:8000" for number in (1, 2)]


def usage():
    names = ("requests", "failed", "kept answers", "prompt", "cached", "answers", "estimated", "cost")
    figures = [TableColumn(name, is_number=True) for name in names]
    table = FittedTable(TableColumn("tenant"), TableColumn("model"), *figures, TableColumn(""))
    table.add_row(
        *("acme", "meta-llama/Llama-3.1-8B-Instruct", "1,200", "0", "3", "1,234,567", "42", "9"),
        *("17", "0.0000406", "USD"),
    )
    return table


def workers():
    table = FittedTable(
        *(
            TableColumn("worker", is_id=True),
            TableColumn("state"),
            TableColumn("models"),
            TableColumn("load", is_number=True),
        ),
        TableColumn("from", drop_order=2),
        TableColumn("KV", is_number=True, drop_order=1),
    )
    for url in URLS:
        table.add_row(url, "ready", "a-model, another-model", "12", "config", "200,000")
    return table


@pytest.mark.parametrize("width", [None, 120, 80, 60, 40, 10])
def test_no_figure_is_cut(width):
    words = " ".join(usage().lines(width)).split()
    assert {"1,200", "0", "3", "1,234,567", "42", "9", "17", "0.0000406", "USD"} <= set(words)
    assert "…" not in "".join(words)


@pytest.mark.parametrize("width", [120, 80, 60])
def test_lines_are_no_wider_than_the_terminal(width):
    assert max(map(cell_len, usage().lines(width))) <= width
    assert max(map(cell_len, workers().lines(width))) <= max(width, len(f" worker  {URLS[0]}"))


@pytest.mark.parametrize("width", [None, 120, 100, 80, 60, 20])
def test_addresses_are_whole(width):
    text = "\n".join(workers().lines(width))
    assert all(url in text for url in URLS)


def test_columns_go_in_their_order_and_are_named():
    whole = workers().lines(None)
    assert whole[0].split() == ["worker", "state", "models", "load", "from", "KV"]
    width = max(map(cell_len, whole)) - 1
    assert workers().lines(width)[0].split() == ["worker", "state", "models", "load", "KV"]
    assert workers().lines(width)[-1] == " no room for: from"


def test_texts_are_folded_before_rows_become_lists():
    table = FittedTable(TableColumn("name"), TableColumn("count", is_number=True))
    table.add_row("x" * 30, "12")
    assert table.lines(25) == [" name               count", f" {'x' * 17}     12", f" {'x' * 13}"]
    assert table.lines(15) == [f" name   {'x' * 30}", " count  12"]


def test_wide_characters_stand_below_each_other():
    table = FittedTable(TableColumn("name"), TableColumn("count", is_number=True))
    table.add_row("模型", "1")
    table.add_row("model", "12")
    assert {cell_len(line) for line in table.lines(80)} == {13}


def test_what_a_terminal_would_obey_is_not_printed():
    table = FittedTable(TableColumn("name"))
    table.add_row("a\x1b[2Jb\nc")
    assert table.lines(80)[1] == " a·[2Jb·c"


@pytest.mark.parametrize("columns", ["40", None])
def test_a_pipe_gets_all_columns_unless_it_is_said_how_wide_it_is(monkeypatch, columns):
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    written = io.StringIO()
    workers().print_to(Console(file=written, highlight=False, markup=False))
    lines = written.getvalue().splitlines()
    assert (len(lines) == 3) == (columns is None)
    assert not any(line.endswith("…") for line in lines)


@pytest.mark.parametrize("width", [None, 80, 10])
def test_a_column_in_which_nothing_stands_takes_no_room(width):
    table = FittedTable(TableColumn("tenant"), TableColumn("cost", is_number=True), TableColumn(""))
    table.add_row("acme", "0", "")  # of a model without a price
    words = " ".join(table.lines(width)).split()
    assert words == (["tenant", "acme", "cost", "0"] if width == 10 else ["tenant", "cost", "acme", "0"])
