"""The lag of the event loop: what a timer finds, over a window, merged over processes by the worst."""

import asyncio
import time

from radixway.core.telemetry import EventLoopLag, MetricsRegistry


def test_quantiles_are_those_of_the_window():
    lag = EventLoopLag(MetricsRegistry(), interval_s=1.0, window_s=100.0)
    assert lag.lag_quantiles() == (0.0, 0.0, 0.0)
    for number in range(1, 101):
        lag.record_lag(number / 1000)
    assert lag.lag_quantiles() == (0.05, 0.099, 0.1)
    for _ in range(100):  # the window has moved on
        lag.record_lag(0.002)
    assert lag.lag_quantiles() == (0.002, 0.002, 0.002)


async def test_a_turn_that_takes_long_is_seen():
    metrics = MetricsRegistry()
    lag = EventLoopLag(metrics, interval_s=0.001)
    await lag.start()
    await asyncio.sleep(0.01)
    time.sleep(0.1)  # noqa: ASYNC251  the loop stands still
    await asyncio.sleep(0.01)
    await lag.stop()
    (measured,) = [
        line
        for line in metrics.render_text().decode().splitlines()
        if line.startswith('radixway_event_loop_lag_seconds{quantile="1"}')
    ]
    assert float(measured.split()[1]) >= 0.09
    assert lag.describe()["lag_max_ms"] >= 90


async def test_nothing_is_measured_after_the_stop():
    lag = EventLoopLag(MetricsRegistry(), interval_s=0.001)
    await lag.start()
    await lag.stop()
    await asyncio.sleep(0.01)
    assert lag.lag_quantiles() == (0.0, 0.0, 0.0)


async def test_of_several_processes_the_worst_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    first, second = MetricsRegistry(), MetricsRegistry()
    for metrics, worst_s in ((first, 0.25), (second, 0.5)):
        EventLoopLag(metrics).record_lag(worst_s)
        await metrics.start()
        await metrics.scrape()
    body = (await first.scrape()).body.decode()
    assert 'radixway_event_loop_lag_seconds{quantile="1"} 0.5' in body
    for metrics in (first, second):
        await metrics.stop()
