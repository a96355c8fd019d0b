"""Rules and dashboards ask for metrics that there are, and the copies for Kubernetes are the same."""

import json
import re

import yaml

from support.kustomize import DEPLOY, named, of_kind, overlay

OBSERVABILITY = DEPLOY / "observability"
BOARDS = {
    path.name: json.loads(path.read_text())
    for path in (OBSERVABILITY / "grafana" / "dashboards").glob("*.json")
}
RULES = yaml.safe_load((OBSERVABILITY / "prometheus" / "rules.yaml").read_text())["groups"]


def queries():
    for group in RULES:
        yield from (rule["expr"] for rule in group["rules"])
    for board in BOARDS.values():
        yield from (target["expr"] for panel in board["panels"] for target in panel.get("targets", ()))
        yield from (each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query")


def test_every_metric_that_is_asked_for_is_in_the_catalogue_and_every_rule_recorded():
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    known = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    recorded = {rule["record"] for group in RULES for rule in group["rules"] if "record" in rule}
    asked = {name for query in queries() for name in re.findall(r"[a-z][\w:]*(?=[\[{) ]|$)", query)}
    ours = {name for name in asked if re.match(r"(radixway|llm|inference|process|batch)_", name)}
    assert len(ours) > 30
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours - known} <= known
    assert {name for name in asked if name.startswith("radixway:")} <= recorded


def test_kubernetes_has_the_same():
    objects = overlay("stack")
    assert named(objects, "PrometheusRule", "radixway")["spec"]["groups"] == RULES
    assert {
        name: json.loads(text)
        for name, text in named(objects, "ConfigMap", "radixway-dashboards")["data"].items()
    } == BOARDS
    (gateways, _) = of_kind(objects, "ServiceMonitor")
    assert gateways["spec"]["jobLabel"] == "app.kubernetes.io/name"  # `up{job="radixway"}`
