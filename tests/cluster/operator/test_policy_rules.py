"""What a RouterPolicy comes to: rules that gateways take, or words that say why not."""

import pytest
import yaml

from radixway.cluster.operator.reconciler import build_config_map, find_winning_policy, render_rules
from radixway.cluster.operator.resources import InvalidSpecError, parse_policy_spec
from radixway.core.config import ConfigError


def policy(name="rules", created="2026-01-01T00:00:00Z", config_map="radixway-rules", **rules):
    metadata = {"name": name, "namespace": "ai", "creationTimestamp": created}
    spec = {"configMap": config_map, "rules": rules or {"default_model": "phi4"}}
    return {"metadata": metadata, "spec": spec}


def test_rules_become_the_file_that_gateways_read():
    owner = policy(default_model="phi4", keyword_rules=[{"category": "math", "keywords": ["定理"]}])
    spec = parse_policy_spec(owner)
    text = render_rules(spec)
    assert yaml.safe_load(text) == owner["spec"]["rules"]
    assert "定理" in text
    assert build_config_map(owner, spec, text)["data"] == {"rules.yaml": text}


def test_rules_outlive_their_policy():
    """Gateways cannot start without the file, so nothing collects it."""
    owner = policy()
    spec = parse_policy_spec(owner)
    assert "ownerReferences" not in build_config_map(owner, spec, render_rules(spec))["metadata"]


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"default_modle": "phi4"}, r"rules\.yaml:1: default_modle: there is no such key"),
        (
            {"categories": [{"name": "math", "model_scores": 3}]},
            r"rules\.yaml:\d: categories\.0\.model_scores",
        ),
        ({"config": "/etc/other.yaml"}, "cannot name another one"),
    ],
)
def test_rules_that_cannot_be_used_are_told_as_gateways_would(rules, told):
    with pytest.raises(ConfigError, match=told):
        render_rules(parse_policy_spec(policy(**rules)))


def test_rules_that_are_no_mapping_are_no_rules():
    with pytest.raises(InvalidSpecError, match=r"spec\.rules"):
        parse_policy_spec({"spec": {"rules": [1]}})


def test_the_oldest_policy_has_the_file_and_among_these_the_first_by_name():
    policies = [
        policy("b", "2026-01-01T00:00:00Z"),
        policy("a", "2026-01-02T00:00:00Z"),
        policy("c", "2026-01-01T00:00:00Z"),
        policy("z", "2025-01-01T00:00:00Z", config_map="others"),
    ]
    assert find_winning_policy(policies, "radixway-rules") == "b"
    policies[0]["metadata"]["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    assert find_winning_policy(policies, "radixway-rules") == "c"
    assert find_winning_policy(policies, "nobody-wants-it") is None


def test_a_policy_that_cannot_be_read_stands_in_nobodys_way():
    older = policy("older", "2025-01-01T00:00:00Z") | {"spec": {"rules": [1]}}
    assert find_winning_policy([older, policy("younger")], "radixway-rules") == "younger"
