"""Every object that deploy/ renders is one that Kubernetes, or the project that defines it, takes."""

import json
import subprocess

import jsonschema
import kubernetes_validate
import pytest

from support.kubernetes_api_server import kinds_of, strict
from support.kustomize import MODELS, OVERLAYS, npm_packages, of_kind, overlay

OTHERS = {
    "gateway.envoyproxy.io/v1alpha1": "envoy-gateway",
    "gateway.networking.k8s.io/v1": "gateway-api",
    "monitoring.coreos.com/v1": "prometheus-operator",
}
OURS = "radixway.io/v1alpha1"

CHECK = """
import { readFileSync } from "node:fs";
const told = [];

// The compiled schemas let unknown fields pass without a look: those that nobody has looked at are told.
const seen = new Map();
function watched(value) {
  if (value === null || typeof value !== "object") return value;
  const fields = new Set();
  seen.set(value, fields);
  const inner = new Map();
  return new Proxy(value, {
    get(target, name) {
      fields.add(name);
      if (!inner.has(name)) inner.set(name, watched(target[name]));
      return inner.get(name);
    },
  });
}
function unseen(value, path) {
  if (value === null || typeof value !== "object") return [];
  return Object.keys(value).flatMap((name) => {
    const at = `${path}.${name}`;
    return seen.get(value)?.has(name) ? unseen(value[name], at) : [at];
  });
}

for (const { module, object } of JSON.parse(readFileSync(0, "utf8"))) {
  const kinds = await import(module);
  const name = `${object.kind} ${object.metadata.name}`;
  try { kinds[object.kind].prototype.validate.call(watched(object)); }
  catch (error) { told.push(`${name}: ${error.message}`); continue; }
  told.push(...unseen(object.spec, `${name}: there is no spec`));
}
console.log(JSON.stringify(told));
"""


def _mistakes(objects):
    """What compiled schemas of the other projects have against these, asked in one run of node."""
    home = npm_packages(
        "models-1", *(f"@kubernetes-models/{name}@{version}" for name, version in MODELS.items())
    )
    asked = []
    for each in objects:
        package = OTHERS[each["apiVersion"]]
        asked.append({"module": f"@kubernetes-models/{package}/{each['apiVersion']}", "object": each})
    script = home / "check.mjs"
    script.write_text(CHECK)
    done = subprocess.run(
        ["node", str(script)], input=json.dumps(asked), cwd=home, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", ["1.27", "1.37"])
@pytest.mark.parametrize("name", OVERLAYS)
def test_kubernetes_takes_every_object(name, version):
    for each in overlay(name):
        if each["apiVersion"] not in OTHERS and each["apiVersion"] != OURS:
            kubernetes_validate.validate(each, version, strict=True)


def test_our_own_resources_are_what_their_schemas_say():
    objects = overlay("operator")
    schemas = {
        kind.kind: strict(kind.schema) for kind in kinds_of(of_kind(objects, "CustomResourceDefinition"))
    }
    for name in OVERLAYS:
        for each in overlay(name):
            if each["apiVersion"] == OURS:
                jsonschema.validate(each | {"metadata": {}}, schemas[each["kind"]])
    assert {each["kind"] for each in objects if each["apiVersion"] == OURS} == set(schemas)


def test_a_misspelt_field_would_be_noticed():
    (deployment,) = [each for each in overlay("demo") if each["kind"] == "Deployment"]
    wrong = deployment | {"spec": deployment["spec"] | {"replica": 3}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_other_projects_take_every_object_of_theirs():
    theirs = [each for name in OVERLAYS for each in overlay(name) if each["apiVersion"] in OTHERS]
    assert {each["apiVersion"] for each in theirs} == set(OTHERS)
    assert _mistakes(theirs) == []


def test_a_misspelt_field_of_theirs_would_be_noticed():
    (policy,) = [each for each in overlay("stack") if each["kind"] == "EnvoyExtensionPolicy"]
    wrong = json.loads(json.dumps(policy))
    call = wrong["spec"]["extProc"][0]
    call["processingMode"]["responses"] = {}
    assert _mistakes([wrong]) == [
        "EnvoyExtensionPolicy radixway: there is no spec.extProc.0.processingMode.responses"
    ]
    call["failOpen"] = "yes"
    assert "failOpen" in _mistakes([wrong])[0]
