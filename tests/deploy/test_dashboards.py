"""Kubernetes has the same rules and dashboards."""

import json

import yaml

from kustomize import DEPLOY, named, of_kind, overlay

OBSERVABILITY = DEPLOY / "observability"
BOARDS = {
    path.name: json.loads(path.read_text())
    for path in (OBSERVABILITY / "grafana" / "dashboards").glob("*.json")
}
RULES = yaml.safe_load((OBSERVABILITY / "prometheus" / "rules.yaml").read_text())["groups"]


def test_kubernetes_has_the_same():
    objects = overlay("stack")
    assert named(objects, "PrometheusRule", "radixway")["spec"]["groups"] == RULES
    assert {
        name: json.loads(text)
        for name, text in named(objects, "ConfigMap", "radixway-dashboards")["data"].items()
    } == BOARDS
    (gateways, _) = of_kind(objects, "ServiceMonitor")
    assert gateways["spec"]["jobLabel"] == "app.kubernetes.io/name"  # `up{job="radixway"}`
