"""One frame as text and as JSON, and the words in it."""

import pytest

from radixway.cli.top.gateway_view import GatewaySample, PartUnavailable, SeenRequest, SeenWorker, TopView
from radixway.cli.top.tables import (
    format_number,
    format_seconds,
    format_share,
    shorten_middle,
    sparkline,
    strip_control,
    to_ascii,
)
from radixway.cli.top.text_frame import _render_table, render_json, render_text
from radixway.core.telemetry import MetricsScrape


def scrape(at: float, requests: float) -> MetricsScrape:
    return MetricsScrape.parse_text(
        f'radixway_requests_total{{status="200"}} {requests}\nradixway_workers 40\n'
        "radixway_workers_ready 39\n",
        at,
    )


def worker(at: int, **fields) -> SeenWorker:
    given = {
        "name": f"10.0.0.{at}:8000",
        "url": f"http://10.0.0.{at}:8000",
        "state": "ready",
        "models": ["qwen"],
    }
    return SeenWorker(**given | fields)


def looked(workers=(), requests=()) -> TopView:
    view = TopView("http://gateway")
    for at in range(3):
        view.add_sample(GatewaySample(scrape(at, at * 50.0), workers, requests))
    return view


REQUEST = SeenRequest(
    id="r1", began_at=0.0, asked="auto", model="qwen", worker="10.0.0.1:8000", status=200,
    ttft_ms=12.5, total_ms=1500.0, prompt_tokens=1200, cached_tokens=1000, completion_tokens=80,
    flags=["stream", "retried"],
)  # fmt: skip


def test_a_frame_fits_its_width_and_says_what_it_leaves_out():
    view = looked([worker(at, in_flight=at) for at in range(40)], [REQUEST])
    lines = render_text(view, rows=5).splitlines()
    assert max(map(len, lines)) <= 80
    assert "39 of 40 workers ready" in lines[0]
    text = "\n".join(lines)
    assert text.index("10.0.0.39:8000") < text.index("10.0.0.38:8000")  # the busiest come first
    assert "10.0.0.1:8000 " in text and "and 35 more" in text
    assert "1200/1000/80" in text and "12ms" in text and "1.5s" in text
    assert "50" in lines[3]


def test_a_filter_is_of_all_words_in_any_case():
    view = looked([worker(1), worker(2, models=["Llama"], state="draining")], [REQUEST])
    assert [each.name for each in view.filter_workers("llama DRAIN")] == ["10.0.0.2:8000"]
    assert view.filter_workers("llama ready") == []
    assert view.filter_requests("retried qwen 200") == [REQUEST]
    assert view.filter_requests("404") == []


def test_json_has_the_figures_and_why_something_is_not_there():
    view = looked([worker(1)], PartUnavailable("this call needs a key"))
    told = render_json(view)
    assert told["figures"]["requests_per_s"] == 50
    assert told["figures"]["first_token_p50_s"] is None
    assert told["workers"][0]["state"] == "ready"
    assert told["requests"] is None
    assert told["closed"] == {"requests": "this call needs a key"}


def test_no_rate_reaches_over_the_time_when_nobody_answered():
    view = looked()
    view.mark_lost("gone")
    assert render_json(view)["away"] == "gone"
    view.add_sample(GatewaySample(scrape(1000, 10.0), [], []))
    assert view.past[-1] is None
    view.add_sample(GatewaySample(scrape(1001, 20.0), [], []))
    assert view.figures.requests_per_s == 10


@pytest.mark.parametrize(
    "hostile", ["\x1b[2Jgone", "two\nlines", "\x07bell", "\u202eright to left", "\x9b31m"]
)
def test_names_of_others_move_no_cursor(hostile):
    view = looked(
        [worker(1, models=[hostile], name=hostile)], [SeenRequest(id="r", began_at=0, asked=hostile)]
    )
    text = render_text(view)
    assert all(each.isprintable() or each == "\n" for each in text)
    assert "gone" in text or "lines" in text or "bell" in text or "right" in text or "31m" in text


def test_words_are_short_and_true():
    assert [format_number(value) for value in (None, 0, 0.04, 0.42, 12.34, 1234, 12345, 2e6)] == [
        "–", "0", "0.04", "0.4", "12.3", "1234", "12.3k", "2.0M",
    ]  # fmt: skip
    assert [format_seconds(value) for value in (0.0042, 0.13, 1.34, 300)] == ["4.2ms", "130ms", "1.3s", "5m"]
    assert [format_share(value) for value in (None, 0.5, 1)] == ["–", "50%", "100%"]
    assert strip_control("abcdef", 4) == "abc…"


def test_a_line_stands_between_nothing_and_its_highest():
    assert sparkline([0, 1, 2, 4, 8], 5) == "▁▂▃▅█"
    assert sparkline([8, None, 8], 5) == "  █ █"
    assert sparkline([0, 0], 2) == "▁▁"
    assert sparkline([1, 2, 3], 0) == ""
    assert to_ascii(sparkline([None, 0, 8], 3) + " – …") == " _@ - ~"


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_no_figure_of_a_narrow_frame_is_cut(width):
    columns = ("worker", "state", "hand", "tok/s", "models")
    rows = [["10.0.0.1:8000", "ready", "1000/1024", "12.3k", "a-model-with-a-long-name"]]
    head, row = _render_table(columns, rows, None, width, 10)
    assert max(len(head), len(row)) <= width
    figures = {"hand": "1000/1024", "tok/s": "12.3k"}
    assert {name for name in figures if name in head} == {
        name for name, figure in figures.items() if figure in row.split()
    }


def test_workers_with_long_names_are_told_apart():
    names = [f"model-server-{number}.inference.cluster.example:8000" for number in (1, 2)]
    shown = {shorten_middle(name, 40) for name in names}
    assert len(shown) == 2 and all(len(name) == 40 and name.endswith(":8000") for name in shown)
    assert shorten_middle("10.0.0.1:8000", 40) == "10.0.0.1:8000"
