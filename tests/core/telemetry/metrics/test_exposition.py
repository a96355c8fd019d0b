"""What a scrape is answered with: both formats, hostile label values, exemplars."""

from __future__ import annotations

import pytest
from prometheus_client import openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from radixway.core.telemetry import MetricsRegistry

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
"""As Prometheus itself asks."""
HOSTILE = 'a"b\\c\nd{e="f"} 1\n# TYPE x counter\nüñ'


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4"),
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0"),
        (PROMETHEUS, "application/openmetrics-text; version=1.0.0"),
    ],
)
async def test_the_format_is_the_one_that_is_asked_for(accept: str, expected: str) -> None:
    told = await MetricsRegistry().scrape(accept)
    assert told.content_type.startswith(expected)
    assert told.body.endswith(b"# EOF\n") == ("openmetrics" in expected)


async def test_a_label_may_hold_anything_and_makes_no_line_of_its_own() -> None:
    metrics = MetricsRegistry()
    metrics.exchanges.record_completed("s", HOSTILE, 200, 0.1, 0.2)
    metrics.retries(HOSTILE).inc()
    for accept, read in (("", read_text), (OPENMETRICS, read_openmetrics)):
        families = list(read((await metrics.scrape(accept)).body.decode()))
        models = {each.labels["model"] for f in families for each in f.samples if "model" in each.labels}
        assert models == {HOSTILE}
        assert "x" not in {family.name for family in families}


async def test_a_traced_request_is_the_exemplar_of_its_bucket_and_others_are_none() -> None:
    metrics = MetricsRegistry()
    metrics.exchanges.record_completed("s", "m", 200, 0.3, 4.0, trace_id="4bf92f3577b34da6a3ce929d0e0e4736")
    metrics.exchanges.record_completed("s", "m", 200, 0.02, 0.03)
    body = (await metrics.scrape(OPENMETRICS)).body.decode()
    found = {
        (sample.name, sample.labels["le"]): sample.exemplar
        for family in read_openmetrics(body)
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert set(found) == {
        ("radixway_first_byte_seconds_bucket", "0.5"),
        ("radixway_request_seconds_bucket", "5.0"),
    }
    assert {each.labels["trace_id"] for each in found.values()} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    assert b"4bf92f" not in (await metrics.scrape()).body


async def test_the_times_at_which_series_were_made_are_left_out() -> None:
    metrics = MetricsRegistry()
    metrics.refusals("queue_full").inc()
    for accept in ("", openmetrics.exposition.CONTENT_TYPE_LATEST):
        body = (await metrics.scrape(accept)).body
        assert b'radixway_refused_total{reason="queue_full"} 1.0' in body and b"_created" not in body


async def test_codes_that_a_middleware_makes_up_do_not_make_series_for_ever() -> None:
    metrics = MetricsRegistry()
    for number in range(1000):
        metrics.exchanges.record_error("s", "m", f"code_{number}")
    body = (await metrics.scrape()).body.decode()
    lines = [line for line in body.splitlines() if line.startswith("radixway_errors_total{")]
    assert len(lines) == 201 and 'radixway_errors_total{kind="other",model="m",surface="s"} 800.0' in lines
