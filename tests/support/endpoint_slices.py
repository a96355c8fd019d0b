"""EndpointSlices as the control plane writes them."""

KIND = "discovery.k8s.io/v1/endpointslices"
LABELS = {"app": "vllm-worker", "model": "llama"}


def endpoint(address, ready=True, terminating=None, uid=None):
    """As the EndpointSlice controller writes one."""
    conditions = {"ready": ready, "serving": ready, "terminating": terminating}
    target = {"kind": "Pod", "name": f"pod-{address}", "uid": uid or f"uid-{address}"}
    return {"addresses": [address], "conditions": conditions, "targetRef": target}


def endpoint_slice(*endpoints, name="vllm-llama-x", namespace="ai", labels=LABELS, ports=None, kind="IPv4"):
    ports = [{"name": "http", "port": 8000, "protocol": "TCP"}] if ports is None else ports
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "addressType": kind,
        "endpoints": list(endpoints) or None,  # what Go makes of an empty list
        "ports": ports or None,
    }
