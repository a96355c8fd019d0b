"""docs/kubernetes.md: its commands run where they can, and what it names is there."""

import re
import subprocess

import jsonschema
import pytest
import yaml

from support.kubernetes_api_server import kinds_of, strict
from support.kustomize import DEPLOY, KUBERNETES, OVERLAYS, RENDERERS, of_kind, overlay

ROOT = DEPLOY.parent
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
COMMANDS = [
    command
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for command in block.replace("\\\n", "").splitlines()
]


def test_every_overlay_is_told_of():
    told = re.findall(r"^\| `([\w-]+)` \| ", PAGE.partition("## Parts")[0], re.MULTILINE)
    assert sorted(told) == OVERLAYS


@pytest.mark.parametrize("command", [each for each in COMMANDS if "apply -k" in each])
def test_what_is_applied_can_be_rendered(command):
    """`kubectl apply -k` renders first; the rest of it needs a cluster."""
    folder = command.split()[-1]
    done = subprocess.run(
        [*RENDERERS["kustomize"](), folder], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [each for each in COMMANDS if "create secret" in each])
def test_secrets_are_what_pods_ask_for(command, tmp_path):
    """The command runs as it is printed, as far as it runs without a cluster."""
    kubectl = RENDERERS["this-machines-kubectl"]()[0]
    told = f"{command.replace('kubectl', kubectl, 1)} --dry-run=client --output=yaml"
    done = subprocess.run(
        ["bash", "-c", told],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    secret = yaml.safe_load(done.stdout)
    assert secret["metadata"]["namespace"] == "llm-inference-stack"
    asked = [
        (reference["name"], reference["key"])
        for reference in _references(overlay("stack"))
        if reference["name"] == secret["metadata"]["name"]
    ]
    assert {key for _, key in asked} <= secret["data"].keys()


def _references(objects):
    """Every `secretKeyRef` in pods."""
    text = yaml.safe_dump(list(objects))
    return [
        {"name": name, "key": key}
        for key, name in re.findall(r"secretKeyRef:\n\s+key: (\S+)\n\s+name: (\S+)", text)
    ]


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("docker build")])
def test_images_are_built_from_files_that_are_there_under_names_that_pods_have(command):
    file, name = re.fullmatch(r"docker build -f (\S+) -t (\S+) \.", command).groups()
    assert (ROOT / file).exists()
    assert f"image: {name}" in "".join(path.read_text() for path in KUBERNETES.rglob("*.yaml"))


def test_the_model_that_is_shown_is_one():
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    (model,) = [each for each in shown if each.get("kind") == "Model"]
    crds = of_kind(overlay("operator"), "CustomResourceDefinition")
    (schema,) = [strict(kind.schema) for kind in kinds_of(crds) if kind.kind == "Model"]
    jsonschema.validate(model | {"metadata": {}}, schema)


def test_files_and_alerts_that_it_names_are_there():
    rules = of_kind(overlay("stack"), "PrometheusRule")
    groups = [group for each in rules for group in each["spec"]["groups"]]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    named = set(re.findall(r"`(Radixway\w+)`", PAGE))
    assert len(named) > 5 and named <= alerts
    for name in re.findall(
        r"`((?:gateway|milvus|envoy-gateway|monitoring|pools?|rules|sidecar)/[\w./-]*)`", PAGE
    ):
        assert (KUBERNETES / name.replace("NAME", "qwen3")).exists(), name
    for name in re.findall(r"`((?:tests|deploy)/[\w./]+)`", PAGE):
        assert (ROOT / name).exists(), name
