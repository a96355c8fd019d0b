"""Gateways in pods: their configuration is read by our own reader, their probes and metrics are served."""

import re
import subprocess

import pytest
import yaml

from support.envoy_process import EXAMPLE, envoy_binary
from support.kubernetes_api import matches
from support.kustomize import KUBERNETES, OVERLAYS, containers, named, of_kind, overlay, workloads
from support.mounted_config import config_of, gateway_of
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker


def gateways(name):
    """The names of an overlay's gateways: rendered when a test asks, not when tests are collected."""
    found = [
        each["metadata"]["name"]
        for each in of_kind(overlay(name), "Deployment")
        if any(container.get("args", ["?"])[0] == "serve" for container in containers(each))
    ]
    assert found
    return found


@pytest.mark.parametrize("name", OVERLAYS)
def test_its_configuration_is_one(name, tmp_path, monkeypatch):
    for gateway in gateways(name):
        workload = named(overlay(name), "Deployment", gateway)
        with monkeypatch.context() as patched:
            config = config_of(overlay(name), workload, tmp_path / gateway, patched)
        ports = {each["name"]: each["containerPort"] for each in gateway_of(workload)["ports"]}
        assert ports["http"] == config.gateway.port
        assert config.gateway.host == "0.0.0.0"
        if config.ext_proc.enabled:
            assert ports["ext-proc"] == config.ext_proc.port
        spec = workload["spec"]["template"]["spec"]
        hook = gateway_of(workload)["lifecycle"]["preStop"]["exec"]["command"]
        assert int(hook[1]) + config.gateway.drain_s < spec["terminationGracePeriodSeconds"]
        # Else each would go by its own load.
        assert workload["spec"]["replicas"] == 1 or config.scale.sync is not None


def test_the_whole_stack_is_wired(tmp_path, monkeypatch):
    objects = overlay("stack")
    config = config_of(objects, named(objects, "Deployment", "radixway"), tmp_path, monkeypatch)
    assert config.semantic_cache.enabled and config.semantic_cache.backend == "milvus"
    assert config.chat.enabled
    named_hosts = {
        config.semantic_cache.milvus.uri,
        config.scale.sync.redis.get_secret_value(),
        config.scale.limits.redis.get_secret_value(),
        config.chat.redis.get_secret_value(),
    }
    for address in named_hosts:
        host, port = re.fullmatch(r"\w+://([\w-]+):(\d+)(?:/\d)?", address).groups()
        service = named(objects, "Service", host)
        assert int(port) in {each["port"] for each in service["spec"]["ports"]}


@pytest.mark.parametrize("name", OVERLAYS)
def test_it_discovers_every_pool_once(name, tmp_path, monkeypatch):
    """EndpointSlices have the labels of their Service."""
    objects = overlay(name)
    for gateway in gateways(name):
        with monkeypatch.context() as patched:
            workload = named(objects, "Deployment", gateway)
            config = config_of(objects, workload, tmp_path / gateway, patched)
        for service in of_kind(objects, "Service"):
            labels = service["metadata"]["labels"]
            found = [each for each in config.discovery.kubernetes if matches(service, each.selector)]
            assert len(found) == (1 if labels.get("app") == "vllm-worker" else 0)
            events = found and found[0].worker.kv_events
            if labels.get("radixway.io/engine") == "vllm":
                ports = {f"tcp://{{host}}:{each['port']}" for each in service["spec"]["ports"]}
                assert {events.endpoint, events.replay_endpoint} <= ports


def test_gateways_may_watch_what_they_discover_workers_by():
    (role,) = [
        each for each in of_kind(overlay("demo"), "Role") if each["metadata"]["name"] == "radixway-discovery"
    ]
    (rule,) = role["rules"]
    assert rule["resources"] == ["endpointslices"] and {"list", "watch"} <= set(rule["verbs"])


def test_every_model_of_the_rules_has_its_pool_and_its_route():
    objects = overlay("stack")
    rules = yaml.safe_load(named(objects, "ConfigMap", "radixway-rules")["data"]["rules.yaml"])
    models = {rules["default_model"], *rules["model_config"]}
    models |= {score["model"] for category in rules["categories"] for score in category["model_scores"]}
    pools = {
        each["metadata"]["labels"]["model"] for each in of_kind(objects, "StatefulSet") if _is_pool(each)
    }
    assert models == pools
    for model in pools:
        (container,) = containers(named(objects, "StatefulSet", f"vllm-{model}"))
        assert f"--served-model-name={model}" in container["args"]
    (route,) = of_kind(objects, "HTTPRoute")
    *decided, undecided = route["spec"]["rules"]
    told = {rule["matches"][0]["headers"][0]["value"]: rule["backendRefs"][0]["name"] for rule in decided}
    assert told == {model: f"vllm-{model}-svc" for model in pools}
    assert "matches" not in undecided
    assert undecided["backendRefs"] == [{"name": "dynamo-frontend-svc", "port": 8000}]


def _is_pool(workload):
    return workload["metadata"]["labels"]["app"] == "vllm-worker"


def test_while_semantic_routers_are_away_others_answer():
    """Fail open: what Envoy does not ask about goes to gateways that are not those that are away."""
    objects = overlay("stack")
    (policy,) = of_kind(objects, "EnvoyExtensionPolicy")
    (call,) = policy["spec"]["extProc"]
    assert call["failOpen"] is True
    assert call["backendRefs"] == [{"name": "semantic-router-svc", "port": 50051}]
    assert named(objects, "Service", "semantic-router-svc")["spec"]["selector"] == {"app": "semantic-router"}
    assert named(objects, "Service", "dynamo-frontend-svc")["spec"]["selector"] == {"app": "dynamo-frontend"}


async def test_a_gateway_without_the_semantic_layer_answers_auto(tmp_path, monkeypatch):
    objects = overlay("stack")
    config = config_of(objects, named(objects, "Deployment", "radixway-frontend"), tmp_path, monkeypatch)
    async with scripted_worker(models=["phi4"]) as worker:
        semantic = config.semantic.model_dump(mode="json", exclude_unset=True)
        async with running_gateway(worker.url, semantic=semantic, chat={"enabled": False}) as gateway:
            status, _, _ = await gateway.chat(model="auto")
    assert status == 200
    assert worker.requests[-1].json()["model"] == "phi4"


def _probes(image):
    """Paths that kubelets ask containers of that image for, and Prometheus."""
    told = set()
    for name in OVERLAYS:
        for container in (each for workload in workloads(overlay(name)) for each in containers(workload)):
            if container["image"].startswith(image):
                probes = [container.get(f"{kind}Probe", {}) for kind in ("startup", "readiness", "liveness")]
                asked = [probe["httpGet"] for probe in probes if "httpGet" in probe]
                told |= {each["path"] for each in asked if each["port"] == "http"}
    return told


async def test_gateways_serve_what_they_are_probed_for_without_a_worker():
    monitor = named(overlay("stack"), "ServiceMonitor", "radixway")
    scraped = {each["path"] for each in monitor["spec"]["endpoints"]}
    async with running_gateway(chat={"enabled": False}) as gateway:
        for path in _probes("radixway/gateway") | scraped:
            async with gateway.client.get(gateway.url + path) as response:
                assert response.status == 200, path


def test_engines_serve_what_they_are_probed_for():
    from radixway.engine.server.app import _ROUTES

    assert _probes("radixway/engine") == {"/health", "/ready"}
    for path in _probes("radixway/engine"):
        assert "GET" in _ROUTES[path]


def test_the_sidecars_envoy_is_the_examples():
    """Three places differ: where it listens, and to whom it goes with what was not decided."""
    beside = yaml.safe_load((KUBERNETES / "sidecar" / "envoy.yaml").read_text())
    example = yaml.safe_load(EXAMPLE.read_text())
    for tree in (beside, example):
        (listener,) = tree["static_resources"]["listeners"]
        del listener["address"]
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        del manager["http_filters"][0]["typed_config"]["failure_mode_allow"]
        (default,) = [each for each in tree["static_resources"]["clusters"] if each["name"] == "default"]
        del default["type"], default["load_assignment"]
    assert beside == example


def test_envoy_takes_the_sidecars_configuration():
    command = [str(envoy_binary()), "--mode", "validate", "-c", str(KUBERNETES / "sidecar" / "envoy.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_sidecars_envoy_alone_reaches_its_ext_proc(tmp_path, monkeypatch):
    objects = overlay("sidecar")
    config = config_of(objects, named(objects, "Deployment", "radixway"), tmp_path, monkeypatch)
    assert config.ext_proc.enabled and config.ext_proc.host == "127.0.0.1"
    policy = named(objects, "NetworkPolicy", "radixway")
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == {"http", "envoy"}
