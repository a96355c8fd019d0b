"""deploy/helm/radixway is rendered by the real Helm: to objects that Kubernetes takes, and a gateway."""

import shutil

import kubernetes_validate
import pytest
import typer
import yaml

from radixway import __version__
from radixway.cli import app
from radixway.core.config import load_config
from support.helm import CHART, HelmRefusedError, lint_chart, render_chart
from support.kustomize import containers, labels_of_pods, named, of_kind, overlay, selected, workloads

EVERYTHING = {
    "demo": {"enabled": True},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecretName": "tls", "annotations": {"a": "b"}},
    "models": {"persistent": True, "storageClassName": "fast"},
    "rules": {"decisions": []},
    "env": {"RADIXWAY__TELEMETRY__LOGS__LEVEL": "debug"},
    "imagePullSecrets": [{"name": "pull"}],
    "podAnnotations": {"team": "platform"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "service": {"type": "LoadBalancer", "annotations": {"lb": "internal"}},
}
NOTHING = {
    "serviceAccount": {"create": False},
    "podDisruptionBudget": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "secretName": "",
}
CASES = {"defaults": {}, "everything": EVERYTHING, "nothing": NOTHING}


@pytest.mark.parametrize("version", ["1.27", "1.37"])
@pytest.mark.parametrize("case", CASES)
def test_kubernetes_takes_every_object(case, version):
    objects = render_chart(CASES[case])
    assert {each["kind"] for each in objects} >= {"Deployment", "Service", "ConfigMap"}
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)
        assert each["metadata"]["namespace"] == "llm-serving"


@pytest.mark.parametrize("case", CASES)
def test_helm_lints_the_chart(case):
    assert lint_chart(CASES[case]) == []


def test_the_chart_is_of_this_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"replicas": 3}, "replicas"),
        ({"service": {"prot": 1}}, "prot"),
        ({"replicaCount": "three"}, "replicaCount"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values, told):
    with pytest.raises(HelmRefusedError, match=told):
        render_chart(values)


def test_a_broken_template_would_be_noticed(tmp_path):
    shutil.copytree(CHART, tmp_path / "radixway")
    template = tmp_path / "radixway/templates/service.yaml"
    template.write_text(template.read_text().replace("ports:", "prots:"))
    with pytest.raises(kubernetes_validate.ValidationError):
        for each in render_chart({}, tmp_path / "radixway"):
            kubernetes_validate.validate(each, "1.37", strict=True)


@pytest.mark.parametrize("case", CASES)
def test_a_gateway_takes_the_configuration(case, tmp_path):
    config = named(render_chart(CASES[case]), "ConfigMap", "llm-radixway-config")["data"]["radixway.yaml"]
    tree = yaml.safe_load(config)
    if rules := tree.pop("semantic", None):
        assert rules == {"config": "/etc/radixway/rules/rules.yaml"}
    path = tmp_path / "radixway.yaml"
    path.write_text(yaml.safe_dump(tree))
    settings = load_config(path)
    assert (settings.gateway.host, settings.gateway.port) == ("0.0.0.0", 30000)
    assert str(settings.encoders.home) == "/models/encoders" and not settings.chat.enabled


def test_given_configuration_is_taken_as_it_is():
    objects = render_chart(
        {"config": {"gateway": {"drain_s": 120, "port": 8080}, "workers": [{"url": "http://a"}]}}
    )
    tree = yaml.safe_load(named(objects, "ConfigMap", "llm-radixway-config")["data"]["radixway.yaml"])
    assert tree["workers"] == [{"url": "http://a"}] and tree["gateway"]["port"] == 8080
    pod = named(objects, "Deployment", "llm-radixway")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 135
    assert pod["containers"][0]["ports"][0]["containerPort"] == 8080


def test_a_changed_configuration_replaces_the_pods_and_changed_rules_do_not():
    def annotations(**values):
        return named(render_chart(values), "Deployment", "llm-radixway")["spec"]["template"]["metadata"][
            "annotations"
        ]

    before = annotations(rules={"decisions": []})
    assert annotations(rules={"decisions": [], "categories": []}) == before
    assert annotations(rules={"decisions": []}, config={"gateway": {"drain_s": 5}}) != before


def test_what_selects_pods_finds_them():
    objects = render_chart(EVERYTHING)
    for service in of_kind(objects, "Service"):
        (workload,) = selected(objects, service["spec"]["selector"])
        ports = {port["name"] for each in containers(workload) for port in each["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for budget in of_kind(objects, "PodDisruptionBudget"):
        assert len(selected(objects, budget["spec"]["selector"]["matchLabels"])) == 1
    (policy,) = of_kind(objects, "NetworkPolicy")
    (may_ask,) = policy["spec"]["ingress"][0]["from"]
    (gateway,) = selected(objects, may_ask["podSelector"]["matchLabels"])
    assert gateway["kind"] == "Deployment"
    (ingress,) = of_kind(objects, "Ingress")
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"]
    assert named(objects, "Service", backend)["spec"]["type"] == "LoadBalancer"


def test_gateways_find_the_demo_engines():
    objects = render_chart(EVERYTHING)
    tree = yaml.safe_load(named(objects, "ConfigMap", "llm-radixway-config")["data"]["radixway.yaml"])
    wanted = dict(part.split("=") for part in tree["discovery"]["kubernetes"][0]["selector"].split(","))
    (service,) = [each for each in of_kind(objects, "Service") if "demo" in each["metadata"]["name"]]
    assert wanted.items() <= service["metadata"]["labels"].items()


def test_pods_start_commands_that_there_are():
    commands = typer.main.get_command(app).commands
    for workload in workloads(render_chart(EVERYTHING)):
        (container,) = containers(workload)
        assert container["image"].endswith(f":{__version__}")
        command, *options = container["args"]
        known = {name for parameter in commands[command].params for name in parameter.opts}
        assert {each for each in options if each.startswith("--")} <= known


def test_pods_are_as_safe_and_as_well_watched_as_those_of_kustomize():
    """The two ways to install come to the same pods in what keeps them apart, and running."""
    ours, theirs = render_chart(EVERYTHING), overlay("demo")
    pairs = [
        (named(ours, "Deployment", "llm-radixway"), named(theirs, "Deployment", "radixway")),
        (named(ours, "StatefulSet", "llm-radixway-demo"), named(theirs, "StatefulSet", "vllm-demo")),
    ]
    for one, other in pairs:
        pods = [each["spec"]["template"]["spec"] for each in (one, other)]
        assert pods[0]["securityContext"] == pods[1]["securityContext"]
        assert pods[0]["terminationGracePeriodSeconds"] == pods[1]["terminationGracePeriodSeconds"]
        (mine,), (other_one,) = containers(one), containers(other)
        same = ("securityContext", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "args")
        assert {name: mine[name] for name in same} == {name: other_one[name] for name in same}
        assert one["spec"]["selector"]["matchLabels"].items() <= labels_of_pods(one).items()
