"""Real Helm: the library of Helm 4 behind Python, in a process of its own, renders and lints charts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from support.kustomize import DEPLOY, Object
from support.pip_tools import pip_packages

CHART = DEPLOY / "helm" / "radixway"
_SDK = "0.2.2"

_CALL = """
import json, sys
from helm_python import Chart, HelmError, lint

path, values = json.load(sys.stdin)
try:
    with Chart.load(path) as chart:
        told = {"rendered": chart.render(values=values, name="llm", namespace="llm-serving")}
    told["lint"] = lint(path, values, strict=True)
except HelmError as error:
    told = {"refused": str(error)}
json.dump(told, sys.stdout)
"""


class HelmRefusedError(Exception):
    """Helm does not render the chart with these values; the message is its own."""


def _call_helm(values: dict[str, Any], path: Path) -> dict[str, Any]:
    home = pip_packages(f"helm-python-sdk-{_SDK}", f"helm-python-sdk=={_SDK}")
    done = subprocess.run(
        [sys.executable, "-c", _CALL],
        input=json.dumps([str(path), values]),
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    if "refused" in told:
        raise HelmRefusedError(told["refused"])
    return told


def render_chart(values: dict[str, Any], path: Path = CHART) -> tuple[Object, ...]:
    """What `helm install llm CHART --namespace llm-serving` would send. Raises HelmRefusedError."""
    texts = _call_helm(values, path)["rendered"]
    documents = (
        document
        for name, text in texts.items()
        if not name.endswith("NOTES.txt")
        for document in yaml.load_all(text, yaml.CSafeLoader)
    )
    return tuple(document for document in documents if document)


def lint_chart(values: dict[str, Any], path: Path = CHART) -> list[str]:
    """What `helm lint --strict` finds. Raises HelmRefusedError."""
    report = _call_helm(values, path)["lint"]
    serious = [each["error"] for each in report["messages"] if each["severity"] >= 2]
    return [*serious, *report["errors"]]
