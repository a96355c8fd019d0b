"""The operator's resources, as they stand in the cluster (deploy/kubernetes/operator/crds)."""

import re
from typing import Any, TypeVar

import msgspec

KubernetesObject = dict[str, Any]
"""Any object of Kubernetes, as its JSON."""

GROUP = "radixway.io"
VERSION = "v1alpha1"
MANAGER = "radixway-operator"
"""Field manager of applied fields, and label of created objects."""


class ModelAutoscaling(msgspec.Struct, frozen=True, rename="camel"):
    """Workers by queue or by GPU, whichever asks for more."""

    max_replicas: int
    min_replicas: int = 1
    queue: int = 4
    """Requests that may wait for each worker."""
    gpu_utilization: int = 80


class ModelStorage(msgspec.Struct, frozen=True, rename="camel"):
    """Storage of each worker for its weights."""

    size: str = "100Gi"
    class_name: str | None = None


class ModelSpec(msgspec.Struct, frozen=True):
    """Spec of a `Model`."""

    model: str
    image: str | None = None
    args: tuple[str, ...] = ()
    gpus: int = 1
    replicas: int | None = None
    """None: the autoscaler's, or one."""
    autoscaling: ModelAutoscaling | None = None
    storage: ModelStorage = ModelStorage()


class PolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """Spec of a `RouterPolicy`."""

    rules: KubernetesObject
    config_map: str = "radixway-rules"


_Spec = TypeVar("_Spec")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,45}[a-z0-9])?")
"""Of a `Model`: `vllm-` before it, a hyphen and the ten characters of a revision behind it are a
label of its
pods, which holds 63 (kubernetes/kubernetes#64023): no pod is made of a StatefulSet whose name is longer."""


class InvalidSpecError(Exception):
    """A specification that its schema accepts is invalid; the message names the field."""


def parse_model_spec(body: KubernetesObject) -> ModelSpec:
    """Parse a `Model`. Raises InvalidSpecError, also where an API server ignores the schema's rules."""
    if not _NAME.fullmatch(body["metadata"]["name"]):
        raise InvalidSpecError("metadata.name: at most 47 lower-case letters, digits and -")
    spec = _convert_spec(body, ModelSpec)
    scaled = spec.autoscaling
    if scaled is not None and spec.replicas is not None:
        raise InvalidSpecError("spec: give replicas or autoscaling, not both")
    if scaled is not None and scaled.min_replicas > scaled.max_replicas:
        raise InvalidSpecError("spec.autoscaling.minReplicas: must not be above maxReplicas")
    return spec


def parse_policy_spec(body: KubernetesObject) -> PolicySpec:
    """Raises InvalidSpecError."""
    return _convert_spec(body, PolicySpec)


def _convert_spec(body: KubernetesObject, kind: type[_Spec]) -> _Spec:
    try:
        return msgspec.convert(body.get("spec", {}), kind)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$")
        raise InvalidSpecError(f"spec{at.rstrip('`')}: {what}") from None
