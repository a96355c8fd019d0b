"""Builds the objects of a `Model`'s pool, as deploy/kubernetes/pools has them by hand."""

import copy
from functools import cache
from importlib.resources import files

import yaml

from radixway.cluster.operator.resources import GROUP, MANAGER, VERSION, KubernetesObject, ModelSpec

KV_EVENTS = (
    '--kv-events-config={"enable_kv_cache_events": true, "publisher": "zmq", '
    '"endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"}'
)


@cache
def _load_templates() -> dict[str, KubernetesObject]:
    text = (files(__package__) / "pool.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def build_pool_objects(owner: KubernetesObject, spec: ModelSpec) -> list[KubernetesObject]:
    """The objects that `owner`, a `Model`, wants, in the order in which they are to be there.

    The StatefulSet names no replicas: see `replicas_of`.
    """
    name = owner["metadata"]["name"]
    wanted = [_service(name), _stateful_set(name, spec), _from_template("PodDisruptionBudget", name)]
    if spec.autoscaling is not None:
        wanted.append(_autoscaler(name, spec))
    for each in wanted:
        metadata = each["metadata"]
        metadata["namespace"] = owner["metadata"]["namespace"]
        metadata["labels"] |= {"model": name, "app.kubernetes.io/managed-by": MANAGER}
        metadata["ownerReferences"] = [_owner_reference(owner)]
    return wanted


def build_replica_patch(owner: KubernetesObject, spec: ModelSpec) -> KubernetesObject | None:
    """Build the patch that sets the number of workers alone; None where an autoscaler does.

    Applied by a field manager of its own: when a pool is handed to an autoscaler nobody says the number any
    more, and were it one of the fields above, the server would put it back to its default, one worker.
    """
    if spec.autoscaling is not None:
        return None
    pool, namespace = stateful_set_name(owner["metadata"]["name"]), owner["metadata"]["namespace"]
    metadata = {"name": pool, "namespace": namespace}
    replicas = {"replicas": 1 if spec.replicas is None else spec.replicas}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": replicas}


def stateful_set_name(model: str) -> str:
    """Return the name of the StatefulSet, the budget and the autoscaler."""
    return f"vllm-{model}"


def _owner_reference(owner: KubernetesObject) -> KubernetesObject:
    """Owner reference: what belongs to a `Model` is deleted with it, without a finalizer."""
    metadata = owner["metadata"]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Model",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _from_template(kind: str, name: str) -> KubernetesObject:
    manifest: KubernetesObject = copy.deepcopy(_load_templates()[kind])
    manifest["metadata"]["name"] = stateful_set_name(name)
    if "selector" in manifest["spec"]:
        manifest["spec"]["selector"]["matchLabels"]["model"] = name
    return manifest


def _service(name: str) -> KubernetesObject:
    manifest = copy.deepcopy(_load_templates()["Service"])
    manifest["metadata"]["name"] = f"vllm-{name}-svc"
    manifest["spec"]["selector"]["model"] = name
    return manifest


def _stateful_set(name: str, spec: ModelSpec) -> KubernetesObject:
    manifest = _from_template("StatefulSet", name)
    manifest["spec"]["serviceName"] = f"vllm-{name}-svc"
    template = manifest["spec"]["template"]
    template["metadata"]["labels"]["model"] = name
    (term,) = template["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    term["podAffinityTerm"]["labelSelector"]["matchLabels"]["model"] = name
    (container,) = template["spec"]["containers"]
    if spec.image is not None:
        container["image"] = spec.image
    container["args"] = _engine_arguments(name, spec)
    for kind in ("requests", "limits"):
        container["resources"][kind]["nvidia.com/gpu"] = str(spec.gpus)
    (claim,) = manifest["spec"]["volumeClaimTemplates"]
    claim["spec"]["resources"]["requests"]["storage"] = spec.storage.size
    claim["metadata"]["labels"] = {"model": name}
    if spec.storage.class_name is not None:
        claim["spec"]["storageClassName"] = spec.storage.class_name
    return manifest


def _engine_arguments(name: str, spec: ModelSpec) -> list[str]:
    arguments = [f"--model={spec.model}", f"--served-model-name={name}"]
    if spec.gpus > 1:
        arguments.append(f"--tensor-parallel-size={spec.gpus}")
    return [*arguments, *spec.args, "--enable-prefix-caching", KV_EVENTS]


def _autoscaler(name: str, spec: ModelSpec) -> KubernetesObject:
    assert spec.autoscaling is not None
    manifest = _from_template("HorizontalPodAutoscaler", name)
    manifest["spec"]["scaleTargetRef"]["name"] = stateful_set_name(name)
    manifest["spec"]["minReplicas"] = spec.autoscaling.min_replicas
    manifest["spec"]["maxReplicas"] = spec.autoscaling.max_replicas
    values = {
        "vllm_num_requests_waiting": spec.autoscaling.queue,
        "gpu_utilization": spec.autoscaling.gpu_utilization,
    }
    for metric in manifest["spec"]["metrics"]:
        pods = metric["pods"]
        pods["target"]["averageValue"] = str(values[pods["metric"]["name"]])
    return manifest
