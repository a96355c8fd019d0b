"""A gateway's configuration as its pod would read it: files of ConfigMaps, environment, arguments."""

from __future__ import annotations

from pathlib import Path

from radixway.cluster.operator.reconciler import FILE, render_rules
from radixway.cluster.operator.resources import parse_policy_spec
from radixway.core.config import Config, load_config
from support.kustomize import Object, containers, named, of_kind


def environment_of(objects: tuple[Object, ...], container: Object) -> dict[str, str]:
    """What ConfigMaps and literal values give it; Secrets are not among what is rendered."""
    told: dict[str, str] = {}
    known = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ConfigMap"}
    for source in container.get("envFrom", ()):
        if (name := source.get("configMapRef", {}).get("name")) in known:
            told |= known[name]["data"]
    return told | {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}


def gateway_of(workload: Object) -> Object:
    return next(each for each in containers(workload) if each["image"].startswith("radixway/gateway"))


def _files(objects: tuple[Object, ...], config_map: str) -> dict[str, str]:
    """Of a ConfigMap that is there, or that the operator makes of a RouterPolicy."""
    for policy in of_kind(objects, "RouterPolicy"):
        if (spec := parse_policy_spec(policy)).config_map == config_map:
            return {FILE: render_rules(spec)}
    return named(objects, "ConfigMap", config_map)["data"]


def config_of(objects: tuple[Object, ...], workload: Object, root: Path, monkeypatch) -> Config:
    """Read by the gateway's own reader, with the pod's files under `root`."""
    container = gateway_of(workload)
    volumes = {each["name"]: each for each in workload["spec"]["template"]["spec"]["volumes"]}
    for mount in container["volumeMounts"]:
        if (source := volumes[mount["name"]].get("configMap")) is not None:
            folder = root / mount["mountPath"].lstrip("/")
            folder.mkdir(parents=True)
            for name, text in _files(objects, source["name"]).items():
                (folder / name).write_text(text.replace("/etc/radixway", f"{root}/etc/radixway"))
    for name, value in environment_of(objects, container).items():
        monkeypatch.setenv(name, value)
    _, at = container["args"][:2]
    assert at == "--config"
    return load_config(root / container["args"][2].lstrip("/"))
