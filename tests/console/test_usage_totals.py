"""Totals of *Usage*, without a browser."""

from radixway.console.pages.usage import _ROWS, _costliest, _currency, _day_options, _total_text


def row(cost, currency, requests=1):
    return {"cost": cost, "currency": currency, "requests": requests}


def test_what_cost_nothing_adds_no_currency():
    rows = [row(0.0, ""), row(1.5, "USD"), row(0.5, "USD"), row(2.0, "EUR")]
    assert _total_text(rows, "cost") == "2 USD + 2 EUR"
    assert _currency(rows) == "USD / EUR"
    assert _total_text([row(0.0, "")], "cost") == "0"
    assert _total_text(rows, "requests") == "4"


def test_a_currency_is_a_name_and_no_script():
    options = _day_options({"2026-11-23": 1.0}, "o'clock")
    assert options["yAxis"]["axisLabel"][":formatter"] == """v => +v.toPrecision(3) + " o'clock\""""


def test_no_more_rows_are_drawn_than_a_browser_takes():
    rows = [row(float(cost), "USD") for cost in range(5_000)]
    assert [each["cost"] for each in _costliest(rows)] == list(range(4_999, 4_999 - _ROWS, -1))
