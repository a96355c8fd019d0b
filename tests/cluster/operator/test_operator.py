"""The operator as it runs, kopf included, against a small API server."""

import asyncio
import re
import sys
from contextlib import asynccontextmanager
from itertools import product
from signal import SIGTERM

import aiohttp
import jsonschema
import pytest
import yaml

from radixway.cluster.operator import OperatorSettings, run_operator
from support.kubernetes_api_server import kubernetes_server
from support.kustomize import KUBERNETES, of_kind, overlay

CRDS = [
    yaml.safe_load(path.read_text()) for path in sorted((KUBERNETES / "operator" / "crds").glob("[mr]*.yaml"))
]
MODELS, POLICIES = "radixway.io/v1alpha1/models", "radixway.io/v1alpha1/routerpolicies"
SETS, SCALERS = "apps/v1/statefulsets", "autoscaling/v2/horizontalpodautoscalers"


@asynccontextmanager
async def operating(namespaces=("ai",)):
    """An API server, and the operator once it watches: in a loop of its own, because kopf waits 5 s at its
    end for whatever else its loop has to do."""
    async with kubernetes_server(CRDS) as server:
        here, ready = asyncio.get_running_loop(), asyncio.Event()
        stop = asyncio.Event()  # belongs to the loop that first waits for it
        there = asyncio.new_event_loop()
        operator = run_operator(
            OperatorSettings(namespaces, server.url), stop, lambda: here.call_soon_threadsafe(ready.set)
        )
        running = asyncio.create_task(asyncio.to_thread(there.run_until_complete, operator))
        try:
            async with asyncio.timeout(60):
                await asyncio.wait(
                    {running, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED
                )
            yield server
        finally:
            there.call_soon_threadsafe(stop.set)
            await running
            there.close()


def model(name="qwen3", **spec):
    return {"metadata": {"name": name}, "spec": {"model": "Qwen/Qwen3-32B", "gpus": 2, **spec}}


def policy(name="rules", created=None, **rules):
    metadata = {"name": name} | ({"creationTimestamp": created} if created else {})
    return {"metadata": metadata, "spec": {"rules": rules}}


def condition(server, resource, name, kind):
    """Status and reason of a resource's condition, once it has one."""
    conditions = (server.get(resource, name) or {}).get("status", {}).get("conditions", ())
    return next(((each["status"], each["reason"]) for each in conditions if each["type"] == kind), None)


def say(server, name, ready, replicas):
    """What a StatefulSet's controller would say of it."""
    subject = server.get(SETS, name)
    counts = {"replicas": replicas, "readyReplicas": ready, "updatedReplicas": replicas}
    status = counts | {"observedGeneration": subject["metadata"]["generation"]}
    server.put(SETS, subject | {"status": status}, "status")


async def test_a_model_becomes_a_pool_and_its_status_follows_the_workers():
    async with operating() as server:
        server.put(MODELS, model(replicas=3))
        await server.until(
            lambda: condition(server, MODELS, "qwen3", "Available") == ("Unknown", "NotObserved")
        )
        assert server.get(SETS, "vllm-qwen3")["spec"]["replicas"] == 3
        assert server.get("v1/services", "vllm-qwen3-svc")["spec"]["clusterIP"] == "None"
        assert server.get("policy/v1/poddisruptionbudgets", "vllm-qwen3") is not None

        say(server, "vllm-qwen3", ready=1, replicas=3)
        await server.until(
            lambda: condition(server, MODELS, "qwen3", "Available") == ("True", "WorkersReady")
        )
        assert condition(server, MODELS, "qwen3", "Progressing") == ("True", "RollingOut")
        say(server, "vllm-qwen3", ready=3, replicas=3)
        await server.until(lambda: condition(server, MODELS, "qwen3", "Progressing") == ("False", "Done"))
        status = server.get(MODELS, "qwen3")["status"]
        assert (status["replicas"], status["readyReplicas"]) == (3, 3)
        assert status["selector"] == "app=vllm-worker,model=qwen3"

        changed = server.get(MODELS, "qwen3")
        changed["spec"] = {**changed["spec"], "gpus": 4}
        server.put(MODELS, changed)
        await server.until(lambda: "--tensor-parallel-size=4" in str(server.get(SETS, "vllm-qwen3")))
        await server.until(lambda: server.get(MODELS, "qwen3")["status"]["observedGeneration"] == 2)

        assert "finalizers" not in server.get(MODELS, "qwen3")["metadata"]
        server.delete(MODELS, "ai", "qwen3")
        assert server.get(SETS, "vllm-qwen3") is None  # collected with its owner


async def test_a_pool_that_is_handed_to_an_autoscaler_keeps_its_workers():
    async with operating() as server:
        server.put(MODELS, model(replicas=5))
        await server.until(lambda: condition(server, MODELS, "qwen3", "Reconciled"))
        scaled = server.get(MODELS, "qwen3")
        scaled["spec"] = {"model": "Qwen/Qwen3-32B", "autoscaling": {"maxReplicas": 9}}
        server.put(MODELS, scaled)
        await server.until(lambda: server.get(SCALERS, "vllm-qwen3"))
        await server.until(lambda: server.get(MODELS, "qwen3")["status"]["observedGeneration"] == 2)
        assert server.get(SETS, "vllm-qwen3")["spec"]["replicas"] == 5

        fixed = server.get(MODELS, "qwen3")
        fixed["spec"] = {"model": "Qwen/Qwen3-32B", "replicas": 2}
        server.put(MODELS, fixed)
        await server.until(lambda: server.get(SCALERS, "vllm-qwen3") is None)
        await server.until(lambda: server.get(SETS, "vllm-qwen3")["spec"]["replicas"] == 2)


async def test_what_somebody_takes_away_is_put_back():
    async with operating() as server:
        server.put(MODELS, model())
        await server.until(lambda: condition(server, MODELS, "qwen3", "Reconciled"))
        gone = server.get(SETS, "vllm-qwen3")["metadata"]["uid"]
        server.delete(SETS, "ai", "vllm-qwen3")
        await server.until(
            lambda: (found := server.get(SETS, "vllm-qwen3")) and found["metadata"]["uid"] != gone
        )


async def test_watches_that_break_or_are_too_old_miss_nothing():
    async with operating() as server:
        server.put(MODELS, model("a"))
        await server.until(lambda: condition(server, MODELS, "a", "Reconciled"))
        server.end_watches(broken=True)
        server.put(MODELS, model("b"))
        await server.until(lambda: condition(server, MODELS, "b", "Reconciled"))
        server.end_watches(broken=True)
        server.put(MODELS, model("c"))
        server.compact()  # nobody has heard of it: whoever goes on is told 410 Gone, and lists anew
        await server.until(lambda: condition(server, MODELS, "c", "Reconciled"))


async def test_an_api_server_that_fails_is_asked_again():
    async with operating() as server:
        server.fail(500, 503, 429)
        server.put(MODELS, model())
        await server.until(lambda: condition(server, MODELS, "qwen3", "Reconciled") == ("True", "Applied"))


async def test_a_model_that_cannot_be_says_why():
    async with operating() as server:
        server.put(MODELS, model("qwen3.5"))
        await server.until(
            lambda: condition(server, MODELS, "qwen3.5", "Reconciled") == ("False", "InvalidSpec")
        )
        assert server.get(SETS, "vllm-qwen3.5") is None


async def test_models_of_other_namespaces_are_left_alone():
    async with operating() as server:
        elsewhere = model("b")
        elsewhere["metadata"]["namespace"] = "others"
        server.put(MODELS, elsewhere)
        server.put(MODELS, model("a"))
        await server.until(lambda: condition(server, MODELS, "a", "Reconciled"))
        assert server.get(SETS, "vllm-b", "others") is None


async def test_a_policy_becomes_rules_and_a_bad_edit_leaves_the_last_good_ones():
    async with operating() as server:
        server.put(POLICIES, policy(default_model="phi4"))
        await server.until(lambda: condition(server, POLICIES, "rules", "Accepted") == ("True", "Written"))
        written = server.get("v1/configmaps", "radixway-rules")["data"]["rules.yaml"]
        assert yaml.safe_load(written) == {"default_model": "phi4"}
        checksum = server.get(POLICIES, "rules")["status"]["checksum"]

        bad = server.get(POLICIES, "rules")
        bad["spec"] = {"rules": {"default_modle": "qwen3"}}
        server.put(POLICIES, bad)
        await server.until(
            lambda: condition(server, POLICIES, "rules", "Accepted") == ("False", "InvalidRules")
        )
        status = server.get(POLICIES, "rules")["status"]
        assert "rules.yaml:1: default_modle" in status["conditions"][0]["message"]
        assert status["checksum"] == checksum
        assert server.get("v1/configmaps", "radixway-rules")["data"]["rules.yaml"] == written


async def test_of_two_policies_the_older_holds_until_it_goes():
    async with operating() as server:
        server.put(POLICIES, policy("old", "2026-01-01T00:00:00Z", default_model="phi4"))
        await server.until(lambda: condition(server, POLICIES, "old", "Accepted") == ("True", "Written"))
        server.put(POLICIES, policy("new", "2026-02-01T00:00:00Z", default_model="qwen3"))
        await server.until(lambda: condition(server, POLICIES, "new", "Accepted") == ("False", "Conflict"))
        server.delete(POLICIES, "ai", "old")
        await server.until(lambda: condition(server, POLICIES, "new", "Accepted") == ("True", "Written"))
        rules = server.get("v1/configmaps", "radixway-rules")["data"]["rules.yaml"]
        assert yaml.safe_load(rules) == {"default_model": "qwen3"}


async def test_a_policy_that_wants_another_file_leaves_its_own_to_the_next_and_takes_that_of_a_younger_one():
    async with operating() as server:
        for name, month, file in (("old", 1, "first"), ("new", 2, "first"), ("newer", 3, "second")):
            wanted = policy(name, f"2026-0{month}-01T00:00:00Z", default_model=name)
            wanted["spec"]["configMap"] = file
            server.put(POLICIES, wanted)
            reason = ("False", "Conflict") if name == "new" else ("True", "Written")
            await server.until(lambda: condition(server, POLICIES, name, "Accepted") == reason)  # noqa: B023
        moved = server.get(POLICIES, "old")
        moved["spec"]["configMap"] = "second"
        server.put(POLICIES, moved)
        await server.until(lambda: condition(server, POLICIES, "new", "Accepted") == ("True", "Written"))
        await server.until(lambda: condition(server, POLICIES, "newer", "Accepted") == ("False", "Conflict"))
        for file, holder in (("first", "new"), ("second", "old")):
            rules = server.get("v1/configmaps", file)["data"]["rules.yaml"]
            assert yaml.safe_load(rules) == {"default_model": holder}
            assert "checksum" in server.get(POLICIES, holder)["status"]
        assert "checksum" not in server.get(POLICIES, "newer")["status"]


async def test_the_command_runs_until_it_is_told_to_stop(free_port):
    liveness = f"http://127.0.0.1:{free_port}/healthz"
    async with kubernetes_server(CRDS) as server, aiohttp.ClientSession() as client:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "radixway", "operator", "--namespace", "ai", "--server", server.url),
            *("--liveness", liveness),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(60):
                assert await process.stdout.readline() == b"operator ready\n"
                server.put(MODELS, model())
                await server.until(lambda: condition(server, MODELS, "qwen3", "Reconciled"))
                async with client.get(liveness) as response:
                    assert response.status == 200
                process.send_signal(SIGTERM)
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_its_account_may_do_what_it_does_and_nothing_is_asked_for_beside():
    async with operating() as server:
        server.put(MODELS, model(replicas=3))
        server.put(POLICIES, policy(default_model="phi4"))
        await server.until(lambda: condition(server, MODELS, "qwen3", "Reconciled"))
        await server.until(lambda: condition(server, POLICIES, "rules", "Accepted"))
    granted = {
        (group, resource, verb)
        for role in of_kind(overlay("operator"), "Role", "ClusterRole")
        if role["metadata"]["name"] == "radixway-operator"
        for rule in role["rules"]
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }
    assert {needed for line in server.requests for needed in _needed(line)} - granted == set()


VERBS = {"GET": ("list", "watch"), "PATCH": ("patch",), "DELETE": ("delete",)}


def _needed(request):
    """What a call needs, as group, resource and verb; discovery is for all."""
    method, _, path = request.partition(" ")
    core = re.fullmatch(r"/api/v1(?:/namespaces/\w+)?/(\w+)(/.+)?", path)
    grouped = re.fullmatch(r"/apis/([\w.]+)/\w+(?:/namespaces/\w+)?/(\w+)(/.+)?", path)
    if core is None and grouped is None:
        return set()
    group, resource, name = ("", *core.groups()) if core is not None else grouped.groups()
    if name and name.endswith("/status"):
        resource += "/status"
    return {(group, resource, verb) for verb in (("get",) if method == "GET" and name else VERBS[method])}


@pytest.mark.parametrize(
    ("resource", "wrong", "told"),
    [
        (MODELS, model(replica=3), "replica"),
        (MODELS, model(gpus=-1), "minimum"),
        (MODELS, {"metadata": {"name": "a"}, "spec": {}}, "model"),
        (MODELS, model(storage={"size": "a lot"}), "match"),
        (POLICIES, {"metadata": {"name": "a"}, "spec": {}}, "rules"),
        (POLICIES, {"metadata": {"name": "a"}, "spec": {"rules": {}, "configMap": "No"}}, "match"),
    ],
)
async def test_the_schemas_refuse_what_no_operator_should_see(resource, wrong, told):
    async with kubernetes_server(CRDS) as server:
        with pytest.raises(jsonschema.ValidationError, match=told):
            server.put(resource, wrong)
