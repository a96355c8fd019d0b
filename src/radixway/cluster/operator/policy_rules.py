"""Builds the ConfigMap with a `RouterPolicy`'s rules for gateways."""

from __future__ import annotations

import tempfile
from hashlib import sha256
from pathlib import Path

import yaml

from radixway.cluster.operator.resources import (
    GROUP,
    MANAGER,
    InvalidSpecError,
    KubernetesObject,
    PolicySpec,
    parse_policy_spec,
)
from radixway.core.config import ConfigError
from radixway.core.config.semantic import load_semantic

FILE = "rules.yaml"


def render_rules(spec: PolicySpec) -> str:
    """The rules as the file that gateways read. Raises ConfigError, in gateways' own words."""
    text = yaml.safe_dump(spec.rules, allow_unicode=True, sort_keys=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_text(text, encoding="utf-8")
        try:
            load_semantic(path)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(path), FILE)) from None
    return text


def rules_checksum(text: str) -> str:
    """Tells one text of rules from another."""
    return sha256(text.encode()).hexdigest()[:12]


def build_config_map(owner: KubernetesObject, spec: PolicySpec, text: str) -> KubernetesObject:
    """It has no owner: rules outlive the policy that wrote them, for gateways cannot start without any."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": spec.config_map,
            "namespace": owner["metadata"]["namespace"],
            "labels": {"app.kubernetes.io/managed-by": MANAGER},
            "annotations": {f"{GROUP}/policy": owner["metadata"]["name"]},
        },
        "data": {FILE: text},
    }


def find_winning_policy(policies: list[KubernetesObject], config_map: str) -> str | None:
    """Return the name of the policy that owns `config_map`: the oldest of `policies`, then by name."""
    rivals = [
        (each["metadata"]["creationTimestamp"], each["metadata"]["name"])
        for each in policies
        if "deletionTimestamp" not in each["metadata"] and _claims_config_map(each, config_map)
    ]
    return min(rivals)[1] if rivals else None


def _claims_config_map(policy: KubernetesObject, config_map: str) -> bool:
    """One that cannot be read, as from before its schema, wants nothing, or all would fail."""
    try:
        return parse_policy_spec(policy).config_map == config_map
    except InvalidSpecError:
        return False
