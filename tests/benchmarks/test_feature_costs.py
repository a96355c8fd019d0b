"""What the table of features' costs compares: configurations that the gateway takes, and round with round."""

import pytest

from radixway.core.config import load_config
from radixway.core.telemetry import MetricsRegistry
from radixway.core.tenants import build_tenant_service
from support.benchmarks import importing_benchmarks

with importing_benchmarks():
    import feature_costs
    from measured_gateways import Gateway


def test_each_feature_is_a_configuration_and_differs_from_the_base(tmp_path, monkeypatch):
    seen = []
    for feature in feature_costs.features(tmp_path, "http://127.0.0.1:1"):
        with monkeypatch.context() as patch:
            for name, value in feature_costs.target(feature).env.items():
                patch.setenv(name, value)
            seen.append(load_config())
    base, *others = seen
    assert not base.telemetry.logs.requests and base.routing.policy.name == "round_robin"
    assert all(other != base for other in others)
    services = [build_tenant_service(config.tenants, MetricsRegistry()) for config in seen]
    assert sum(service is not None for service in services) == 2


def test_a_cost_is_the_median_of_what_rounds_differ_by():
    base = Gateway("base", 1, 1, cpu_s={"1 KB": [0.1, 0.2, 0.1], "stream": [1.0, 2.0, 1.0]})
    slow = Gateway("slow", 2, 2, cpu_s={"1 KB": [0.11, 0.3, 0.11], "stream": [1.0, 2.0, 5.0]})
    cost = feature_costs.cost_of(feature_costs.Feature("slow", {}), slow, base)
    assert (cost.added_us, cost.share) == (pytest.approx(10), pytest.approx(0.1))
    assert (cost.stream_added_us, cost.stream_share) == (0, 0)
    assert cost.row()[-1] == "no"
    assert feature_costs.Cost("reads", 99.0, 9.0, reads_text=True).row()[-1] == "reads text"
    assert feature_costs.Cost("cheap", 1.0, 0.01, reads_text=False).row()[-1] == "yes"
