"""What the objects of an overlay say of each other holds: selectors, ports, references, networks."""

import re
from itertools import product

import pytest

from radixway.cluster.operator.resources import parse_policy_spec
from support.kustomize import (
    DEPLOY,
    OVERLAYS,
    containers,
    labels_of_pods,
    of_kind,
    overlay,
    selected,
    workloads,
)

PAGE = DEPLOY.parent / "docs" / "kubernetes.md"


def _ports(workload):
    return {
        port["name"]: port["containerPort"] for each in containers(workload) for port in each.get("ports", ())
    }


def _pod_spec(workload):
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_service_selects_pods_that_have_its_ports(name):
    for service in of_kind(overlay(name), "Service"):
        found = selected(overlay(name), service["spec"]["selector"])
        assert found, f"{service['metadata']['name']} selects nothing"
        for workload in found:
            for port in service["spec"]["ports"]:
                assert port["targetPort"] in _ports(workload), service["metadata"]["name"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_workload_selects_its_own_pods_and_no_others(name):
    for workload in workloads(overlay(name)):
        assert selected(overlay(name), workload["spec"]["selector"]["matchLabels"]) == [workload]


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_stateful_set_has_its_headless_service(name):
    services = {each["metadata"]["name"]: each for each in of_kind(overlay(name), "Service")}
    for each in of_kind(overlay(name), "StatefulSet"):
        service = services[each["spec"]["serviceName"]]
        assert selected(overlay(name), service["spec"]["selector"]) == [each]
        if each["metadata"]["name"].startswith("vllm-"):
            assert service["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize("name", OVERLAYS)
def test_budgets_policies_and_autoscalers_are_of_something(name):
    for each in of_kind(overlay(name), "PodDisruptionBudget"):
        assert len(selected(overlay(name), each["spec"]["selector"]["matchLabels"])) == 1
    for each in of_kind(overlay(name), "NetworkPolicy"):
        pods = each["spec"]["podSelector"]["matchLabels"]
        assert selected(overlay(name), pods) or pods == {"app": "vllm-worker"}  # which may be elsewhere
    known = {(each["kind"], each["metadata"]["name"]) for each in overlay(name)}
    for each in of_kind(overlay(name), "HorizontalPodAutoscaler"):
        target = each["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) in known


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_autoscalers_workload_leaves_the_number_to_it(name):
    """A number in the StatefulSet would be put back by every `kubectl apply`."""
    scaled = {
        each["spec"]["scaleTargetRef"]["name"] for each in of_kind(overlay(name), "HorizontalPodAutoscaler")
    }
    for each in workloads(overlay(name)):
        assert ("replicas" not in each["spec"]) == (each["metadata"]["name"] in scaled)


@pytest.mark.parametrize("name", OVERLAYS)
def test_what_pods_refer_to_is_there(name):
    known = {(each["kind"], each["metadata"]["name"]) for each in overlay(name)}
    for workload in workloads(overlay(name)):
        spec = _pod_spec(workload)
        if "serviceAccountName" in spec:
            assert ("ServiceAccount", spec["serviceAccountName"]) in known
        for volume in spec.get("volumes", ()):
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in known | _written_by_the_operator(name)
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in known
        volumes = {each["name"] for each in (*spec.get("volumes", ()), *_claims(workload))}
        for container in containers(workload):
            assert {each["name"] for each in container.get("volumeMounts", ())} <= volumes


def _written_by_the_operator(name):
    policies = [parse_policy_spec(each) for each in of_kind(overlay(name), "RouterPolicy")]
    return {("ConfigMap", spec.config_map) for spec in policies}


def _claims(workload):
    return [each["metadata"] for each in workload["spec"].get("volumeClaimTemplates", ())]


@pytest.mark.parametrize("name", OVERLAYS)
def test_secrets_are_made_by_whoever_deploys_and_the_page_says_how(name):
    page = PAGE.read_text()
    for workload in workloads(overlay(name)):
        for container in containers(workload):
            sources = [each["secretRef"] for each in container.get("envFrom", ()) if "secretRef" in each]
            values = [each.get("valueFrom", {}) for each in container.get("env", ())]
            sources += [each["secretKeyRef"] for each in values if "secretKeyRef" in each]
            for source in sources:
                assert re.search(rf"kubectl create secret generic {source['name']}\b", page), source
    assert of_kind(overlay(name), "Secret") == []


@pytest.mark.parametrize("name", OVERLAYS)
def test_roles_are_bound_to_accounts_that_exist(name):
    accounts = {
        (each["metadata"]["name"], each["metadata"]["namespace"])
        for each in of_kind(overlay(name), "ServiceAccount")
    }
    roles = {
        (each["kind"], each["metadata"]["name"]) for each in of_kind(overlay(name), "Role", "ClusterRole")
    }
    for each in of_kind(overlay(name), "RoleBinding", "ClusterRoleBinding"):
        assert {(subject["name"], subject["namespace"]) for subject in each["subjects"]} <= accounts
        assert (each["roleRef"]["kind"], each["roleRef"]["name"]) in roles


@pytest.mark.parametrize("name", OVERLAYS)
def test_pods_are_hardened_pinned_and_bounded(name):
    for workload in workloads(overlay(name)):
        spec = _pod_spec(workload)
        assert (
            spec["enableServiceLinks"] is False
        )  # else Services' addresses come as keys of ours: REDIS_PORT
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert "serviceAccountName" in spec or spec["automountServiceAccountToken"] is False
        for container in containers(workload):
            image, _, tag = container["image"].rpartition(":")
            assert image and tag not in ("", "latest")
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
            assert "readinessProbe" in container
            if not image.startswith("vllm/"):  # which has to be root for some GPUs
                assert spec["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("name", OVERLAYS)
def test_gateways_are_told_to_keep_away_from_each_other(name):
    for workload in workloads(overlay(name)):
        if labels_of_pods(workload).get("app.kubernetes.io/component") == "gateway":
            affinity = _pod_spec(workload)["affinity"]["podAntiAffinity"]
            (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
            labels = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
            assert labels.items() <= labels_of_pods(workload).items()
            (spread,) = _pod_spec(workload)["topologySpreadConstraints"]
            assert spread["labelSelector"]["matchLabels"] == labels


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_pod_has_the_time_that_its_requests_may_take(name):
    for workload in workloads(overlay(name)):
        spec = _pod_spec(workload)
        for container in containers(workload):
            hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])
            assert int(hook[1]) < spec.get("terminationGracePeriodSeconds", 30)


@pytest.mark.parametrize("name", OVERLAYS)
def test_networks_let_gateways_through_to_every_service(name):
    objects = overlay(name)
    gateways = [
        each
        for each in workloads(objects)
        if labels_of_pods(each).get("app.kubernetes.io/component") == "gateway"
    ]
    policies = of_kind(objects, "NetworkPolicy")
    for service in of_kind(objects, "Service"):
        targets = [each for each in selected(objects, service["spec"]["selector"]) if each not in gateways]
        for target, gateway, port in product(targets, gateways, service["spec"]["ports"]):
            assert _may(policies, gateway, target, port["targetPort"]), service["metadata"]["name"]


def _may(policies, source, target, port):
    """Whether pods of `source` reach that port of `target` in their own namespace."""
    over = [each["spec"] for each in policies if _holds(each["spec"]["podSelector"], target)]
    for rule in (rule for spec in over for rule in spec["ingress"]):
        if port in {each["port"] for each in rule["ports"]} and any(
            "podSelector" in peer and _holds(peer["podSelector"], source) for peer in rule.get("from", ())
        ):
            return True
    return not over


def _holds(selector, workload):
    return selector["matchLabels"].items() <= labels_of_pods(workload).items()
