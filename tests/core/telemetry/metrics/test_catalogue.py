"""`docs/metrics.md` against what a gateway with everything on and an engine publish: neither has more."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from radixway.core.telemetry import MetricsScrape
from support.engine_process import engine_process
from support.free_ports import find_port
from support.running_gateway import running_gateway

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
_ROW = re.compile(r"^\| `([a-z0-9_]+)` \| (counter|gauge|histogram) \| ([^|]*)\|", re.MULTILINE)


def catalogue(part: str) -> dict[str, tuple[str, frozenset[str]]]:
    """By name: type and labels, of one part of the page."""
    return {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in _ROW.findall(part)
    }


GATEWAY, ENGINE, RAY = map(catalogue, re.split(r"^## (?:The engine|In Ray)$", PAGE, flags=re.MULTILINE))


def published(text: str) -> dict[str, tuple[str, frozenset[str] | None]]:
    """The same of an exposition; labels are None where there is no series yet."""
    found: dict[str, tuple[str, frozenset[str] | None]] = {}
    for family in read_text(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = None
        for sample in family.samples:
            labels = frozenset(sample.labels) - {"le"} | (labels or frozenset())
        found[name] = family.type, labels
    return found


def differences(
    told: dict[str, tuple[str, frozenset[str] | None]], written: dict[str, tuple[str, frozenset[str]]]
) -> list[str]:
    """What is in one alone, or otherwise there."""
    wrong = [f"{name} is not in docs/metrics.md" for name in sorted(told.keys() - written.keys())]
    wrong += [f"{name} is published by nobody" for name in sorted(written.keys() - told.keys())]
    for name in sorted(told.keys() & written.keys()):
        kind, labels = told[name]
        if kind != written[name][0] or labels not in (None, written[name][1]):
            wrong.append(f"{name}: {told[name]} is published, {written[name]} is written down")
    return wrong


async def test_a_gateway_and_an_engine_publish_what_is_written_down_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("re2")
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    ours, others, away = find_port(), find_port(), find_port()
    sections = {
        "chat": {"enabled": True},
        "guard": {"enabled": True, "pii": {"action": "block"}},
        "semantic_cache": {"enabled": True},
        "semantic": {"default_model": "guide"},
        "encoders": {"backend": "numpy", "preload": False},
        "tenants": {
            "default": {"rates": {"requests_per_minute": 1000}},
            "pricing": {"*": {"prompt_per_1m": 1.0, "completion_per_1m": 2.0}},
        },
        "trajectories": {"enabled": True},
        "telemetry": {"tracing": {"endpoint": f"http://127.0.0.1:{away}"}},
        "scale": {
            "planner": {"load_interval_s": 0.1, "forecast": "constant"},
            "gateways": {
                "self_url": "http://127.0.0.1:1",
                "all": ["http://127.0.0.1:1", f"http://127.0.0.1:{away}"],
                "key": "a key of sixteen characters",
            },
            "sync": {"bind": f"tcp://127.0.0.1:{ours}", "peers": [f"tcp://127.0.0.1:{others}"]},
        },
    }
    with engine_process() as (engine, _):
        async with running_gateway(engine, **sections) as gateway:
            (model,) = gateway.gateway.registry.known_models()
            for stream in (False, True):
                async with gateway.client.post(
                    gateway.url + "/v1/chat/completions",
                    json={
                        "model": model,
                        "messages": [{"role": "user", "content": "What is a KV cache? " * 40}],
                        "max_tokens": 4,
                        "stream": stream,
                    },
                ) as response:
                    await response.read()
                    assert response.status == 200
            await gateway.chat(model="nobody's")
            text = "A tree of roots and leaves"
            for _ in range(2):
                asked = {"text": text, "sampling_params": {"max_new_tokens": 3}}
                status, reply, _ = await gateway.post("/generate", asked)
                assert status == 200
                text += reply["text"] + " And then?"
            async with gateway.client.get(gateway.url + "/metrics/prometheus") as response:
                text = await response.text()
            headers = {"accept": "application/openmetrics-text; version=1.0.0"}
            async with gateway.client.get(gateway.url + "/metrics", headers=headers) as response:
                assert {family.name for family in read_openmetrics(await response.text())}
        async with aiohttp.ClientSession() as client, client.get(engine + "/metrics") as response:
            of_engine = await response.text()
    assert differences(published(text), GATEWAY) == []
    assert differences(published(of_engine), ENGINE) == []
    scrape = MetricsScrape.parse_text(text, 0.0)
    name = engine.removeprefix("http://")
    assert scrape.total("radixway_worker_tier_tokens", worker=name, tier="device") > 0
    assert 0 <= scrape.total("radixway_worker_kv_usage_ratio", worker=name) <= 1
    assert scrape.total("radixway_tokens_total", kind="completion", worker=name) >= 8
    assert scrape.total("radixway_prefix_prompt_tokens_total", by="reported") > 0
    assert scrape.totals_by("result", "radixway_trajectory_lookups_total") == {"hit": 1, "miss": 1}
    reused = scrape.total("radixway_trajectory_reused_tokens_total")
    assert 0 < reused < scrape.total("radixway_trajectory_prompt_tokens_total")
    assert scrape.total("radixway_trajectory_tokens") > reused


def test_names_keep_prometheus_conventions() -> None:
    for name, (kind, _) in (GATEWAY | ENGINE).items():
        published_elsewhere = name.startswith(("llm_", "batch_", "inference_"))
        assert (kind == "counter") == name.endswith("_total") or name == "llm_cache_entries_total"
        assert not name.endswith(("_ms", "_milliseconds", "_percent")), name
        assert published_elsewhere or name.startswith(("radixway_", "process_")), name


def test_rays_metrics_are_those_of_its_routers() -> None:
    source = (ROOT / "src/radixway/cluster/prefix_router/router_metrics.py").read_text()
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args]
    first = [call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)]
    assert {name for name in first if str(name).startswith("radixway_")} == RAY.keys()
