"""Writes deploy/observability's rules and dashboards, and their copies for Kubernetes.

python tools/observability_files.py            writes what has changed
python tools/observability_files.py --check    names what has, and ends with 1 if there is any
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))

from observability.alerts import alert_group
from observability.boards import BOARDS
from observability.queries import recording_group

DEPLOY = Path(__file__).parents[1] / "deploy"
_WRITTEN = "# Written by tools/observability_files.py: change that, or tools/observability/.\n"


class _Blocks(yaml.SafeDumper):
    """Keeps keys in their order, and long words on one line."""


def files() -> Iterator[tuple[Path, str]]:
    """Every file and its text."""
    groups = [recording_group(), alert_group()]
    yield DEPLOY / "observability" / "prometheus" / "rules.yaml", _yaml({"groups": groups})
    yield DEPLOY / "kubernetes" / "monitoring" / "alerts.yaml", _yaml(_prometheus_rule(groups))
    for board in BOARDS:
        text = json.dumps(board.json(), indent=1) + "\n"
        for folder in ("observability/grafana/dashboards", "kubernetes/monitoring/dashboards"):
            yield DEPLOY / folder / f"{board.name}.json", text


def _prometheus_rule(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The same for the Prometheus operator."""
    labels = {"app.kubernetes.io/name": "radixway"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "radixway", "labels": labels},
        "spec": {"groups": groups},
    }


def _yaml(tree: dict[str, Any]) -> str:
    return _WRITTEN + yaml.dump(tree, Dumper=_Blocks, sort_keys=False, width=1_000, allow_unicode=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    changed = [(path, text) for path, text in files() if not path.exists() or path.read_text() != text]
    for path, text in changed:
        print(path.relative_to(DEPLOY.parent))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
