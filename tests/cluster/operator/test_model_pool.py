"""What a Model comes to is what deploy/kubernetes/pools has by hand, and Kubernetes takes it."""

from datetime import UTC, datetime

import kubernetes_validate
import pytest

from radixway.cluster.operator.model_pool import build_pool_objects, build_replica_patch
from radixway.cluster.operator.reconciler import StatusCondition, merge_conditions, model_conditions
from radixway.cluster.operator.resources import InvalidSpecError, parse_model_spec
from support.kustomize import overlay

BY_HAND = {
    "deepseek-v31": {
        "model": "deepseek-ai/DeepSeek-V3.1",
        "gpus": 8,
        "args": ["--kv-cache-dtype=fp8"],
        "autoscaling": {"minReplicas": 4, "maxReplicas": 8},
    },
    "phi4": {"model": "microsoft/phi-4", "autoscaling": {"minReplicas": 2, "maxReplicas": 8}},
    "qwen3": {"model": "Qwen/Qwen3-32B", "gpus": 2, "autoscaling": {"minReplicas": 2, "maxReplicas": 8}},
}


def model(name="qwen3", **spec):
    metadata = {"name": name, "namespace": "llm-inference-stack", "uid": "u-1", "generation": 1}
    return {"kind": "Model", "metadata": metadata, "spec": {"model": "Qwen/Qwen3-32B", **spec}}


def pool(name="qwen3", **spec):
    owner = model(name, **spec)
    return {each["kind"]: each for each in build_pool_objects(owner, parse_model_spec(owner))}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_pool_is_the_one_that_is_written_by_hand(name):
    made = pool(name, **BY_HAND[name])
    for kind, names in {
        "StatefulSet": f"vllm-{name}",
        "Service": f"vllm-{name}-svc",
        "PodDisruptionBudget": f"vllm-{name}",
        "HorizontalPodAutoscaler": f"vllm-{name}",
    }.items():
        (by_hand,) = [
            each for each in overlay("stack") if (each["kind"], each["metadata"]["name"]) == (kind, names)
        ]
        assert made[kind]["spec"] == by_hand["spec"]
        assert by_hand["metadata"]["labels"].items() <= made[kind]["metadata"]["labels"].items()


@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_kubernetes_takes_a_pool(version):
    whole = {
        "image": "registry.local/vllm:1",
        "autoscaling": {"maxReplicas": 3, "queue": 9, "gpuUtilization": 60},
        "storage": {"size": "1Ti", "className": "fast"},
    }
    for each in pool(**whole).values():
        kubernetes_validate.validate(each, version, strict=True)


def test_what_is_asked_for_is_in_it():
    made = pool(gpus=4, image="vllm:x", storage={"size": "1Ti", "className": "fast"}, args=["--seed=1"])
    (container,) = made["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "vllm:x"
    assert container["args"][:4] == [
        "--model=Qwen/Qwen3-32B",
        "--served-model-name=qwen3",
        "--tensor-parallel-size=4",
        "--seed=1",
    ]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"
    (claim,) = made["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Ti"
    assert "HorizontalPodAutoscaler" not in made


def test_the_longest_name_leaves_room_for_the_label_of_its_pods():
    longest = "q" * 47
    assert parse_model_spec(model(longest)).model
    assert len(pool(longest)["StatefulSet"]["metadata"]["name"] + "-58d5fbb889") == 63


def test_the_number_of_workers_is_set_apart_from_all_else():
    """When a pool is handed to an autoscaler, nobody takes the number back to one."""
    assert "replicas" not in pool(replicas=3)["StatefulSet"]["spec"]
    fixed, scaled = model(replicas=3), model(autoscaling={"maxReplicas": 9})
    assert build_replica_patch(fixed, parse_model_spec(fixed))["spec"] == {"replicas": 3}
    assert build_replica_patch(model(), parse_model_spec(model()))["spec"] == {"replicas": 1}
    assert build_replica_patch(scaled, parse_model_spec(scaled)) is None


@pytest.mark.parametrize(
    ("name", "spec", "told"),
    [
        ("qwen3", {"replicas": 1, "autoscaling": {"maxReplicas": 2}}, "spec: give replicas or autoscaling"),
        ("qwen3", {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}, "spec.autoscaling.minReplicas"),
        ("qwen3", {"gpus": "two"}, "spec.gpus"),
        ("qwen3", {"autoscaling": {}}, "spec.autoscaling: .*maxReplicas"),
        ("qwen3.5", {}, "metadata.name"),
        ("q" * 48, {}, "metadata.name: at most 47"),
    ],
)
def test_what_cannot_be_is_named(name, spec, told):
    with pytest.raises(InvalidSpecError, match=told):
        parse_model_spec(model(name, **spec))


def stateful_set(wanted, ready, updated=None, generation=2, observed=2):
    return {
        "metadata": {"generation": generation},
        "spec": {"replicas": wanted},
        "status": {
            "observedGeneration": observed,
            "readyReplicas": ready,
            "updatedReplicas": wanted if updated is None else updated,
        },
    }


@pytest.mark.parametrize(
    ("seen", "available", "progressing"),
    [
        (None, ("Unknown", "NotObserved"), None),
        (stateful_set(3, 0), ("False", "NoWorkerReady"), ("True", "RollingOut")),
        (stateful_set(3, 2), ("True", "WorkersReady"), ("True", "RollingOut")),
        (stateful_set(3, 3), ("True", "WorkersReady"), ("False", "Done")),
        (stateful_set(3, 3, updated=1), ("True", "WorkersReady"), ("True", "RollingOut")),
        (stateful_set(3, 3, observed=1), ("True", "WorkersReady"), ("True", "RollingOut")),
        (stateful_set(0, 0), ("False", "ScaledToZero"), ("False", "Done")),
    ],
)
def test_conditions_say_how_workers_are(seen, available, progressing):
    told = {
        each.type: (each.status, each.reason) for each in model_conditions(parse_model_spec(model()), seen)
    }
    assert told["Reconciled"] == ("True", "Applied")
    assert told["Available"] == available
    assert told.get("Progressing") == progressing


def test_a_message_that_no_api_server_would_take_is_cut():
    reason = StatusCondition("Accepted", "False", "InvalidRules", "wrong\n" * 10_000)
    (told,) = merge_conditions(None, [reason], 1, datetime(2026, 1, 1, tzinfo=UTC))
    assert len(told["message"]) == 32768 and reason.message.startswith(told["message"])


def test_a_condition_keeps_the_time_of_its_last_change():
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    spec = parse_model_spec(model())
    first = merge_conditions(None, model_conditions(spec, stateful_set(3, 2)), 1, early)
    second = merge_conditions(first, model_conditions(spec, stateful_set(3, 3)), 2, late)
    times = {each["type"]: each["lastTransitionTime"] for each in second}
    assert times == {
        "Reconciled": "2026-01-01T00:00:00Z",
        "Available": "2026-01-01T00:00:00Z",
        "Progressing": "2026-01-02T00:00:00Z",
    }
    assert {each["observedGeneration"] for each in second} == {2}
