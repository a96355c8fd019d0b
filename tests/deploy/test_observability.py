"""deploy/observability: Prometheus takes its configuration, and the other files agree with each other."""

import re

import pytest
import yaml

from support.kustomize import DEPLOY, of_kind, overlay
from support.prometheus_process import promtool

HERE = DEPLOY / "observability"


def read(path):
    return yaml.safe_load((HERE / path).read_text())


COMPOSE = read("compose.yaml")
SERVICES = COMPOSE["services"]


def test_prometheus_takes_its_configuration_with_the_rules():
    done = promtool("check", "config", HERE / "prometheus" / "prometheus.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


def test_prometheus_takes_the_one_for_kubernetes_but_for_the_discovery(tmp_path):
    """Debian's Prometheus is built without Kubernetes' discovery: what stands beside it is checked."""
    tree = read("prometheus/kubernetes.yaml")
    for job in tree["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == [{"role": "endpointslice"}]
        job["static_configs"] = [{"targets": ["127.0.0.1:1"]}]
    tree["rule_files"] = [str(HERE / "prometheus" / "rules.yaml")]
    path = tmp_path / "prometheus.yaml"
    path.write_text(yaml.safe_dump(tree))
    done = promtool("check", "config", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_scraped_on_kubernetes_is_there():
    """Each job keeps endpoints by a label of their Service and the name of a port: some Service has both."""
    services = of_kind(overlay("stack"), "Service")
    for job in read("prometheus/kubernetes.yaml")["scrape_configs"]:
        (keep,) = [each for each in job["relabel_configs"] if each.get("action") == "keep"]
        label, port = keep["regex"].split(";")
        assert any(
            service["metadata"]["labels"].get("radixway.io/scrape") == label
            and any(each["name"] == port for each in service["spec"]["ports"])
            for service in services
        ), job["job_name"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_is_of_a_pinned_image_and_mounts_what_is_there(name):
    service = SERVICES[name]
    assert service.keys() <= {"image", "network_mode", "restart", "command", "environment", "volumes"}
    assert re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", service["image"])
    for mount in service["volumes"]:
        source, target = mount.removesuffix(":ro").split(":")
        assert target.startswith("/")
        assert (HERE / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]


def test_who_sends_and_who_listens_agree():
    listens = next(each for each in SERVICES["prometheus"]["command"] if "listen-address" in each)
    (prometheus, tempo) = read("grafana/provisioning/datasources/radixway.yaml")["datasources"]
    assert prometheus["url"] == f"http://{listens.split('=')[1]}"
    server = read("tempo.yaml")["server"]
    assert tempo["url"] == f"http://{server['http_listen_address']}:{server['http_listen_port']}"
    exporter = read("otel-collector.yaml")["exporters"]["otlp"]["endpoint"]
    receivers = read("tempo.yaml")["distributor"]["receivers"]
    assert exporter == receivers["otlp"]["protocols"]["grpc"]["endpoint"]
    assert prometheus["jsonData"]["exemplarTraceIdDestinations"][0]["datasourceUid"] == tempo["uid"]
    (provider,) = read("grafana/provisioning/dashboards/radixway.yaml")["providers"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in SERVICES["grafana"]["volumes"]
    assert SERVICES["prometheus"]["command"][0] == "--config.file=/etc/prometheus/prometheus.yaml"


def test_nobody_else_reaches_them():
    """Grafana lets anybody look: all of them listen on this machine alone."""
    for path in ("otel-collector.yaml", "tempo.yaml", "prometheus/prometheus.yaml"):
        assert "0.0.0.0" not in (HERE / path).read_text()
    assert SERVICES["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert all(service["network_mode"] == "host" for service in SERVICES.values())
