"""deploy/kubernetes is rendered by real kustomizes, of 2.0.3 and later, to the same objects."""

import re
from collections import Counter

import pytest
import yaml

from support.kustomize import KUBERNETES, OVERLAYS, RENDERERS, overlay, render


def _without_digests(objects):
    """By kind and name. The digest at the end of a generated name differs between versions."""
    text = re.sub(r"-[2456789bcdfghkmt]{10}\b", "", yaml.dump_all(objects, Dumper=yaml.CSafeDumper))
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.load_all(text, yaml.CSafeLoader)}


@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("renderer", [name for name in RENDERERS if name != "kustomize"])
def test_old_and_new_kustomize_render_the_same(name, renderer):
    rendered = render(KUBERNETES / "overlays" / name, renderer)
    assert _without_digests(rendered) == _without_digests(overlay(name))


@pytest.mark.parametrize("name", OVERLAYS)
def test_no_object_comes_twice(name):
    keys = Counter((each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in overlay(name))
    assert [key for key, count in keys.items() if count > 1] == []


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_object_of_a_namespace_says_which(name):
    without = {"Namespace", "GatewayClass", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
    assert {each["metadata"].get("namespace") for each in overlay(name) if each["kind"] not in without} == {
        "llm-inference-stack"
    }
