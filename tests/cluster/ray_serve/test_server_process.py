"""What engine replicas run, and how many of them there are to be; without Ray."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
from ray.serve._private.common import DeploymentID

from radixway.cluster.discovery import DiscoverySourceError
from radixway.cluster.planner.ray_autoscaler import by_requests_in_hand
from radixway.cluster.ray_serve import replica_source
from radixway.cluster.ray_serve.server_process import EngineServerError, ServerProcess, plan_server
from radixway.core.config import ConfigError, EngineConfig, RayEngineConfig, load_config
from radixway.gateway.ray_serve import build, build_app

PORTS = [9001, 9002, 9003]


def test_our_engine_gets_its_settings_without_a_file_and_the_cores_that_ray_keeps_for_it():
    section = RayEngineConfig(num_cpus=4, pools=("big",))
    plan = plan_server(section, EngineConfig(model="org/model"), "10.0.0.7", PORTS)
    assert json.loads(plan.environment["RADIXWAY__ENGINE"]) == {"model": "org/model", "threads": 4}
    assert plan.command[7:11] == ["--host", "10.0.0.7", "--port", "9001"]
    assert "--until-stdin-closes" in plan.command and "--insecure" in plan.command
    assert (plan.worker.url, plan.worker.pools) == ("http://10.0.0.7:9001", ("big",))
    assert plan.in_hand(b'{"running": 2, "waiting": 3, "loading": 1, "paused": false}') == 6


def test_our_engines_key_goes_to_the_engine_and_to_the_gateway_and_into_no_argument():
    settings = EngineConfig(model="org/model", api_key="hush")
    plan = plan_server(RayEngineConfig(), settings, "10.0.0.7", PORTS)
    assert plan.environment["RADIXWAY__ENGINE__API_KEY"] == "hush"
    assert "api_key" not in json.loads(plan.environment["RADIXWAY__ENGINE"])
    assert plan.worker.api_key.get_secret_value() == "hush"
    assert "hush" not in " ".join(plan.command)


def test_threads_that_are_configured_stay():
    plan = plan_server(RayEngineConfig(num_cpus=4), EngineConfig(threads=2), "10.0.0.7", PORTS)
    assert json.loads(plan.environment["RADIXWAY__ENGINE"])["threads"] == 2


def test_vllm_publishes_where_the_gateway_is_told_that_it_does():
    section = RayEngineConfig(kind="vllm", arguments=("--max-model-len", "8192"))
    settings = EngineConfig(model="org/model", served_model_name="small")
    plan = plan_server(section, settings, "10.0.0.7", PORTS)
    command = " ".join(plan.command[1:])
    assert command.startswith("-m vllm.entrypoints.cli.main serve org/model --served-model-name small ")
    assert command.endswith("--max-model-len 8192")
    told = json.loads(plan.command[plan.command.index("--kv-events-config") + 1])
    assert told["enable_kv_cache_events"]
    assert (
        plan.worker.kv_events.endpoint == told["endpoint"].replace("*", "10.0.0.7") == "tcp://10.0.0.7:9002"
    )
    assert plan.worker.kv_events.replay_endpoint == told["replay_endpoint"].replace("*", "10.0.0.7")


def test_what_vllm_has_in_hand_is_read_from_its_metrics():
    plan = plan_server(RayEngineConfig(kind="vllm"), EngineConfig(), "10.0.0.7", PORTS)
    said = (
        b"# TYPE vllm:num_requests_running gauge\n"
        b'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
        b'vllm:num_requests_waiting{engine="0",model_name="m"} 4.0\n'
        b'vllm:num_requests_running{engine="1",model_name="m"} 1.0\n'
    )
    assert plan.in_hand(said) == 8
    with pytest.raises(ValueError, match="num_requests_running"):
        plan.in_hand(b"nothing of the kind 1.0\n")


def figures(reported: dict[str, float] | None, now: int = 3) -> SimpleNamespace:
    aggregated = {} if reported is None else {"requests_in_hand": reported}
    return SimpleNamespace(
        aggregated_metrics=aggregated,
        target_num_replicas=now,
        config=SimpleNamespace(target_ongoing_requests=8),
    )


@pytest.mark.parametrize(
    ("reported", "wanted"), [({"a": 8.0, "b": 8.0}, 2), ({"a": 20.0, "b": 0.0}, 2.5), ({"a": 0.0}, 0)]
)
def test_there_are_as_many_replicas_as_hold_what_is_in_hand(reported, wanted):
    assert by_requests_in_hand(figures(reported)) == (wanted, {})


@pytest.mark.parametrize("reported", [None, {}])
def test_while_no_replica_says_what_it_has_nothing_changes(reported):
    assert by_requests_in_hand(figures(reported)) == (3, {})


async def test_a_server_that_cannot_start_is_told_of_at_once():
    section = RayEngineConfig(kind="vllm")  # which is not installed where tests run
    with pytest.raises(EngineServerError, match="ended with 1"):
        await ServerProcess.start_server(section, EngineConfig(model="org/model"), "127.0.0.1")


async def test_rays_directory_is_asked_beside_the_event_loop(monkeypatch):
    """It may be away for long, and requests go on meanwhile."""
    asked_in = []

    def get_actor(name: str, namespace: str) -> None:
        asked_in.append(threading.get_ident())
        raise ValueError("nobody has this name")

    monkeypatch.setattr(replica_source.ray, "get_actor", get_actor)
    with pytest.raises(DiscoverySourceError, match="controller does not answer"):
        await anext(replica_source.follow_metadata([DeploymentID("engine", "app")]))
    assert len(asked_in) == 1
    assert asked_in != [threading.get_ident()]


def test_serve_run_builds_the_application_of_a_file(tmp_path):
    file = tmp_path / "radixway.yaml"
    file.write_text("ray: {engines: [{name: small}, {name: big, num_gpus: 1}]}")
    application = call_user_app_builder_with_args_if_necessary(build, {"config": str(file)})  # as it does
    assert application._bound_deployment.name == "gateway"
    bound = application._bound_deployment.init_args[1:]
    assert [engine._bound_deployment.name for engine in bound] == ["small", "big"]


def test_serve_run_is_told_of_an_argument_that_there_is_not():
    with pytest.raises(ValidationError, match="confg"):
        call_user_app_builder_with_args_if_necessary(build, {"confg": "radixway.yaml"})


def test_numbers_of_replicas_are_no_reason_to_restart_them_and_a_changed_secret_is():
    def versions(**sections) -> list[str]:
        application = build_app(load_config(overrides=sections))
        gateway = application._bound_deployment
        return [each.version for each in (gateway, gateway.init_args[1]._bound_deployment)]

    limits = {"max_replicas": 4}
    two = versions(ray={"engines": [{"replicas": 2}]})
    assert versions(ray={"engines": [{"replicas": 5}]}) == two
    gateway, engine = versions(ray={"engines": [{"autoscaling": limits}]})
    assert (gateway, engine != two[1]) == (two[0], True)  # it is to report from its start
    keys = [versions(gateway={"admin_key": key}) for key in ("one", "another")]
    assert keys[0][0] != keys[1][0]
    assert keys[0][1] == keys[1][1] == two[1]


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ("engines: [{name: a}, {name: a}]", "more than one deployment of the name 'a'"),
        ("engines: [{name: gateway}]", "more than one deployment of the name 'gateway'"),
        ("engines: [{arguments: [--x]}]", "arguments are vLLM's"),
        ("engines: [{request_router_class: Router}]", "no dotted path"),
        ("engines: [{autoscaling: {min_replicas: 3, max_replicas: 2}}]", "less than min_replicas"),
        ("engines: [{autoscaling: {min_replicas: 0, max_replicas: 2}}]", "min_replicas"),
        ("engines: [{settings: {eviction: sideways}}]", "eviction"),
        ("route_prefix: /a/", "route_prefix"),
    ],
)
def test_mistakes_in_the_section_are_told_by_line(tmp_path, section, named):
    file = tmp_path / "radixway.yaml"
    file.write_text(f"ray:\n  {section}\n")
    with pytest.raises(ConfigError, match=f":[12]: ray.*{named}"):
        load_config(file)
