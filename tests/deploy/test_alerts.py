"""Every alert fires when it should and is silent when all is well: promtool runs the rules over series."""

import re
import subprocess
import sys

import pytest
import yaml

from support.kustomize import DEPLOY
from support.prometheus_process import promtool

RULES = DEPLOY / "observability" / "prometheus" / "rules.yaml"
FLEET = DEPLOY / "kubernetes" / "monitoring" / "fleet.yaml"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}
LENGTH = 76
"""Minutes of every series; whether alerts fire is asked at the end. The slowest wants an hour."""
EVERY = "4m"
"""So often rules are evaluated: what is asked for is time enough, not each minute of it."""


SECTIONS = {
    heading.lower().replace(" ", "-")
    for heading in re.findall(
        r"^### (Radixway .*)$", (DEPLOY.parent / "docs" / "troubleshooting.md").read_text(), re.MULTILINE
    )
}
"""Of the page that alerts lead to."""


def grows(series, each_minute):
    return {"series": series, "values": f"0+{each_minute}x{LENGTH}"}


def stays(series, value):
    return {"series": series, "values": f"{value}+0x{LENGTH}"}


def took(histogram, seconds, labels="", each_minute=60):
    """A histogram with two buckets: everything takes at most `seconds`, and more than a tenth of that."""
    at = ",".join(filter(None, (labels, "le={}")))
    return [
        grows(f"{histogram}_bucket{{{at.format(repr(str(bound)))}}}".replace("'", '"'), count)
        for bound, count in ((seconds / 10, 0), (seconds, each_minute), ("+Inf", each_minute))
    ]


def asked(each_minute=60, status=200):
    return grows(f'radixway_requests_total{{surface="openai.chat",model="m",status="{status}"}}', each_minute)


def prefixes(by, cached):
    labels = f'{{worker="w:1",model="m",policy="expected_time",by="{by}"}}'
    return [
        grows(f"radixway_prefix_prompt_tokens_total{labels}", 1000),
        grows(f"radixway_prefix_cached_tokens_total{labels}", cached),
    ]


MODEL = 'surface="openai.chat",model="m"'
CASES = {
    "RadixwayUnderstandingIsSlow": (
        took("llm_model_routing_latency_seconds", 0.4),
        took("llm_model_routing_latency_seconds", 0.02),
    ),
    "RadixwayRoutingIsSlow": (
        took("radixway_selection_seconds", 0.1, 'policy="round_robin"'),
        took("radixway_selection_seconds", 0.001, 'policy="round_robin"'),
    ),
    "RadixwayFirstBytesAreLate": (
        [asked(), *took("radixway_first_byte_seconds", 60, MODEL)],
        [asked(), *took("radixway_first_byte_seconds", 2, MODEL)],
    ),
    "RadixwayAnswersAreLate": (
        [asked(), *took("radixway_request_seconds", 300, MODEL)],
        [asked(), *took("radixway_request_seconds", 60, MODEL)],
    ),
    "RadixwaySemanticCacheMisses": (
        [asked(), grows("llm_cache_hits_total", 1), grows("llm_cache_misses_total", 60)],
        [asked(), grows("llm_cache_hits_total", 10), grows("llm_cache_misses_total", 50)],
    ),
    "RadixwayPrefixesAreNotReused": (
        [asked(), *prefixes("reported", 50)],
        [asked(), *prefixes("reported", 500)],
    ),
    "RadixwayPredictionsAreOff": (
        [asked(), *prefixes("predicted", 900), *prefixes("reported", 300)],
        [asked(), *prefixes("predicted", 900), *prefixes("reported", 850)],
    ),
    "RadixwayKvEventsAreDegraded": (
        [stays('radixway_kv_event_workers{state="degraded"}', 1)],
        [stays('radixway_kv_event_workers{state="degraded"}', 0)],
    ),
    "RadixwayGuardBlocksMuch": (
        [asked(), grows('radixway_guard_actions_total{guard="jailbreak",action="block"}', 20)],
        [asked(), grows('radixway_guard_actions_total{guard="jailbreak",action="block"}', 1)],
    ),
    "RadixwayGuardCannotRead": (
        [grows('radixway_guard_errors_total{guard="pii"}', 1)],
        [grows('radixway_guard_errors_total{guard="pii"}', 0)],
    ),
    "RadixwayAuditCannotWrite": ([stays("radixway_audit_failing", 1)], [stays("radixway_audit_failing", 0)]),
    "RadixwayErrors": ([asked(), asked(3, 502)], [asked(), asked(6, 404), asked(0, 502)]),
    "RadixwayRetriesAreMany": (
        [asked(), grows('radixway_retries_total{reason="unreachable"}', 6)],
        [asked(), grows('radixway_retries_total{reason="unreachable"}', 1)],
    ),
    "RadixwayStreamsBreak": (
        [asked(), grows("radixway_broken_streams_total", 2)],
        [asked(), grows("radixway_broken_streams_total", 0)],
    ),
    "RadixwayRefuses": (
        [asked(), grows('radixway_refused_total{reason="queue_full"}', 6)],
        [asked(), grows('radixway_refused_total{reason="queue_full"}', 1)],
    ),
    "RadixwayIsDown": (
        [stays('up{job="radixway",instance="a:30000"}', 0)],
        [stays('up{job="radixway",instance="a:30000"}', 1), stays('up{job="other",instance="a:1"}', 0)],
    ),
    "RadixwayHasNoWorkers": ([stays("radixway_workers_ready", 0)], [stays("radixway_workers_ready", 1)]),
    "RadixwayWorkersAreDown": (
        [stays('radixway_worker_state{worker="w:1",state="down"}', 1)],
        [stays('radixway_worker_state{worker="w:1",state="draining"}', 1)],
    ),
    "RadixwayBreakersAreOpen": (
        [stays('radixway_breaker{worker="w:1"}', 1)],
        [stays('radixway_breaker{worker="w:1"}', 0.5)],
    ),
    "RadixwayQueueIsDeep": ([stays("radixway_queued", 51)], [stays("radixway_queued", 50)]),
    "RadixwayNeedsReplicas": (
        [
            stays('radixway_planner_replicas{role="any",model="m"}', 3),
            stays('radixway_planner_ready_replicas{role="any",model="m"}', 2),
        ],
        [
            stays('radixway_planner_replicas{role="any",model="m"}', 2),
            stays('radixway_planner_ready_replicas{role="any",model="m"}', 3),
        ],
    ),
    "RadixwayGpusAreIdle": (
        [stays('radixway_worker_gpu_utilisation_ratio{worker="w:1",gpu="0"}', 0.05)],
        [stays('DCGM_FI_DEV_GPU_UTIL{Hostname="node",gpu="0"}', 50)],
    ),
    "RadixwayGpusAreFull": (
        [stays('DCGM_FI_DEV_GPU_UTIL{Hostname="node",gpu="0"}', 99)],
        [stays('radixway_worker_gpu_utilisation_ratio{worker="w:1",gpu="0"}', 0.7)],
    ),
    "RadixwayChatsWait": (
        [stays('radixway_chat_oldest_job_seconds{state="ready"}', 300)],
        [
            stays('radixway_chat_oldest_job_seconds{state="ready"}', 5),
            stays('radixway_chat_oldest_job_seconds{state="leased"}', 300),
        ],
    ),
    "RadixwayChatsFail": (
        [
            grows('inference_requests_total{model="m",status="complete"}', 20),
            grows('inference_requests_total{model="m",status="timeout"}', 4),
        ],
        [
            grows('inference_requests_total{model="m",status="complete"}', 20),
            grows('inference_requests_total{model="m",status="cancelled"}', 4),
        ],
    ),
    "RadixwayDiscoveryFails": (
        [stays('radixway_discovery_up{source="dns:workers"}', 0)],
        [stays('radixway_discovery_up{source="dns:workers"}', 1)],
    ),
    "RadixwayGatewaysLoseTouch": (
        [stays('radixway_tenant_limits_shared{over="redis"}', 0), stays("radixway_load_sync_up", 1)],
        [stays('radixway_tenant_limits_shared{over="redis"}', 1), stays("radixway_load_sync_up", 1)],
    ),
    "RadixwayCollectorIsDown": (
        [stays('up{job="otel-collector",instance="c:8888"}', 0)],
        [stays('up{job="otel-collector",instance="c:8888"}', 1)],
    ),
    "RadixwaySpansAreLost": (
        [grows('radixway_trace_spans_total{outcome="dropped"}', 3)],
        [grows('radixway_trace_spans_total{outcome="exported"}', 3)],
    ),
}
"""By alert: series with which it fires, series of the same metrics with which it does not."""


def fires(expr, value):
    """Whether an expression over ALERTS has this value at the end, or none."""
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    return {"expr": expr, "eval_time": f"{LENGTH}m", "exp_samples": samples}


def test_every_alert_fires_with_what_it_is_about_and_without_it_does_not(tmp_path):
    assert CASES.keys() == ALERTS.keys()
    tests = [
        {
            "interval": "1m",
            "name": f"{name} {'fires' if wrong else 'is silent'}",
            "input_series": series,
            "promql_expr_test": [
                fires(f'count(ALERTS{{alertname="{name}",alertstate="firing"}})', 1 if wrong else None)
            ],
        }
        for name, both in CASES.items()
        for wrong, series in zip((True, False), both, strict=True)
    ]
    # Shares of a few requests wake nobody.
    few = [grows('radixway_requests_total{surface="openai.chat",model="m",status="502"}', 1)]
    tests.append({"interval": "1m", "input_series": few, "promql_expr_test": [fires("count(ALERTS)", None)]})
    path = tmp_path / "tests.yaml"
    path.write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": EVERY, "tests": tests})
    )
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fleet_in_which_all_is_well_wakes_nobody(tmp_path):
    series = [each for _, well in CASES.values() for each in well]
    latest = {each["series"]: each for each in series}
    told = {
        "rule_files": [str(RULES)],
        "evaluation_interval": EVERY,
        "tests": [
            {
                "interval": "1m",
                "input_series": list(latest.values()),
                "promql_expr_test": [fires('count(ALERTS{alertstate="firing"})', None)],
            }
        ],
    }
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump(told))
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_rules():
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_of_the_cluster_lead_somewhere_too():
    (group,) = yaml.safe_load(FLEET.read_text())["spec"]["groups"]
    for rule in group["rules"]:
        assert rule["annotations"]["runbook_url"].partition("#")[2] in SECTIONS


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_where_to_look_and_how_bad_it_is(name):
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert all(rule["annotations"][each].endswith(".") for each in ("summary", "description"))
    anchor = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
    assert rule["annotations"]["runbook_url"] == f"docs/troubleshooting.md#{anchor}"
    assert anchor in SECTIONS


def test_the_files_are_what_the_script_writes():
    script = DEPLOY.parent / "tools" / "observability_files.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run python tools/observability_files.py: {done.stdout}{done.stderr}"
