"""`radixway import litellm`: three configurations such as its users have, and the report on each."""

from pathlib import Path

import pytest
import yaml

from radixway.core.config import HostedWorkerSettings, load_config
from radixway.core.config.litellm_config import import_litellm
from support.command_runs import run_command

FILES = Path(__file__).parents[1] / "data" / "litellm"


def imported(name, tmp_path):
    """The configuration that the file comes to, and the lines of the report."""
    out = tmp_path / "radixway.yaml"
    done = run_command("import", "litellm", FILES / name, "--out", out)
    assert done.exit_code == 0, done.stderr
    checked = run_command("config", "check", out)
    assert (checked.exit_code, checked.stderr) == (0, "")
    return load_config(out), done.stderr.splitlines()


def line_of(name, text):
    lines = (FILES / name).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def told(report, *parts):
    return [line for line in report if all(part in line for part in parts)]


def test_azure_deployments_keep_addresses_versions_and_keys(tmp_path):
    config, report = imported("two_teams_on_azure.yaml", tmp_path)
    one, two = config.workers
    assert isinstance(one, HostedWorkerSettings)
    assert (one.provider, one.url, one.api_version) == ("azure", "https://one.openai.azure.com", "2024-06-01")
    assert (one.names, one.api_key_env) == ({"team-one": "chat-deployment"}, "AZURE_API_KEY")
    assert (two.names, two.max_in_flight) == ({"team-two": "big-deployment"}, 8)
    name = "two_teams_on_azure.yaml"
    assert told(report, f"{name}:{line_of(name, 'tpm:')}:", "model_list.0.litellm_params.tpm")
    assert told(report, "model_list.1.litellm_params.max_retries", "pipeline.retry.attempts")


def test_deployments_that_share_a_name_share_its_requests(tmp_path):
    config, report = imported("load_balancer.yaml", tmp_path)
    shared = [worker for worker in config.workers if "shared" in worker.models]
    assert [worker.api_key.get_secret_value() for worker in shared] == ["sk-first", "sk-second"]
    assert len({worker.url for worker in config.workers}) == len(config.workers)
    routing = config.routing
    assert routing.model_aliases["weighed"].split == {"weighed-1": 9, "weighed-2": 1}
    served = {model: worker for worker in config.workers for model in worker.models}
    assert (served["weighed-2"].provider, served["weighed-2"].names["weighed-2"]) == (
        "anthropic",
        "claude-sonnet-4-5",
    )
    assert routing.fallbacks == {"ordered": "ordered-2"}
    assert (served["ordered"].url, served["ordered"].api_key_env) == (
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
    )
    assert (served["ordered-2"].region, served["ordered-2"].names["ordered-2"]) == (
        "eu-west-1",
        "anthropic.claude-haiku",
    )
    assert routing.model_aliases["gpt-4"] == routing.model_aliases["weighed"], (
        "aliases are not followed twice"
    )
    assert (routing.policy.name, routing.breaker.failures_in_row, routing.breaker.open_s) == (
        "least_loaded",
        4,
        30,
    )
    assert (config.pipeline.retry.attempts, config.gateway.request_timeout_s) == (3, 30)
    assert config.tenants.named["default"].quotas.cost_per_month == 100
    for place in ("model_list.6", "cache_params", "redis_host", "environment_variables", "model_list.0.rpm"):
        assert told(report, place), place


def test_own_workers_stay_own_and_what_cannot_be_taken_is_told(tmp_path):
    config, report = imported("own_and_hosted.yaml", tmp_path)
    own, claude, gemini = config.workers
    assert own.url == "http://10.0.0.5:8000"
    assert config.routing.model_aliases["llama"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert config.routing.fallbacks == {"meta-llama/Llama-3.1-8B-Instruct": "claude"}
    prices = claude.pricing_of("claude")
    assert (claude.provider, prices.prompt_per_1m, prices.completion_per_1m) == ("anthropic", 1, 5)
    assert (gemini.provider, gemini.names) == ("gemini", {"gemini": "gemini-2.5-flash"})
    assert config.tenants.named["default"].keys[0].key_env == "LITELLM_MASTER_KEY"
    assert config.pipeline.retry.attempts == 6
    for place in ("model_list.3", "context_window_fallbacks", "success_callback", "database_url"):
        assert told(report, place), place
    assert told(report, "litellm_settings.fallbacks.0", "gemini")
    assert told(report, "litellm_settings.fallbacks.1", "circle")


def test_numbers_that_yaml_takes_for_texts_are_read_and_nothing_is_lost_in_silence():
    params = {"model": "gpt-4o", "input_cost_per_token": "1e-6", "output_cost_per_token": "a lot"}
    settings = {"fallbacks": {"a": ["b"]}, "model_group_alias": {"z": None}}
    given = {"model_list": [{"model_name": "a", "litellm_params": params}], "router_settings": settings}
    done = import_litellm(given)
    assert done.tree["workers"][0]["pricing"] == {"a": {"prompt_per_1m": 1.0}}
    assert {left.place[-1] for left in done.left_out} == {"output_cost_per_token", "fallbacks", "z"}
    assert "routing" not in done.tree


def take(models, **sections):
    """What a file with `models` comes to, as the gateway reads it, and the last names of what is left out.

    `models`: by name, the parameters of one deployment, or of several.
    """
    entries = [
        {"model_name": name, "litellm_params": params}
        for name, given in models.items()
        for params in (given if isinstance(given, list) else [given])
    ]
    done = import_litellm({"model_list": entries, **sections})
    return load_config(overrides=done.tree), {str(left.place[-1]): left.reason for left in done.left_out}


def test_an_entry_that_is_wrong_costs_no_other_one():
    wrong = {
        "": {"model": "gpt-4o"},
        "address": {"model": "gpt-4o", "api_base": "not a url"},
        "own": {"model": "hosted_vllm/x", "api_base": "ftp://a"},
        "long" * 99: {"model": "gpt-4o"},
    }
    config, left = take({**wrong, "m": {"model": "gpt-4o", "api_key": 5, "input_cost_per_token": -1}})
    assert [worker.models for worker in config.workers] == [("m",)]
    assert left.keys() == {"0", "1", "2", "3", "api_key", "input_cost_per_token"}


def test_regions_are_read_from_names_and_told_where_the_environment_has_them():
    config, left = take(
        {
            "a": {"model": "bedrock/us-west-2/mistral.mistral-7b"},
            "b": {"model": "bedrock/anthropic.claude", "aws_region_name": "os.environ/AWS_REGION_NAME"},
            "c": {"model": "bedrock/converse/anthropic.claude", "aws_region_name": "us-east-1"},
            "d": {
                "model": "azure/x",
                "api_base": "https://a.b",
                "api_version": "os.environ/AZURE_API_VERSION",
            },
        }
    )
    assert config.workers[0].region == "us-west-2"
    assert config.workers[0].names == {"a": "mistral.mistral-7b"}
    assert len({worker.url for worker in config.workers}) == 4, "two of them are in the usual region"
    assert left.keys() == {"aws_region_name", "api_version"}


def test_an_order_goes_before_the_fallbacks_of_its_name():
    ordered = [{"model": "gpt-4o", "order": 1}, {"model": "gpt-4o-mini", "order": 2}]
    split = [{"model": "o3", "weight": 1}, {"model": "o4", "weight": 3}]
    fallbacks = [{"a": ["nowhere", "b"]}, {"b": ["c"]}, {"c": ["nowhere"]}, {"b": ["a-2"]}]
    config, left = take(
        {"a": ordered, "b": split, "b-1": {"model": "o1"}, "c": {"model": "o1"}},
        router_settings={"fallbacks": fallbacks},
    )
    routing = config.routing
    assert routing.model_aliases["b"].split == {"b-1-": 1, "b-2": 3}, "the file has another b-1"
    assert routing.fallbacks == {"a": "a-2", "a-2": "b-2", "b-1-": "c", "b-2": "c"}
    assert left.keys() == {"0", "2", "3"}


def test_own_workers_of_one_name_share_it_and_hosted_ones_have_their_part():
    def own(host, model="qwen", **params):
        return {"model": f"hosted_vllm/{model}", "api_base": f"http://{host}:8000/v1", **params}

    config, left = take(
        {
            "q": [own("a", weight=1), own("b", weight=2)],
            "mixed": [own("a"), own("b"), {"model": "gpt-4o"}],
            "two": [own("c", "x"), own("d", "y", input_cost_per_token=1e-6)],
            "same": [own("e", "same"), {"model": "gpt-4o"}],
            "one": {"model": "gpt-4o", "weight": 3},
            "o": {"model": "ollama/llama3"},
        },
        router_settings={"model_group_alias": {"z": "z", "q": "two", "o2": "o"}},
        general_settings={"master_key": "sk-1234"},
    )
    assert [worker.url for worker in config.workers if not worker.models][-1] == "http://localhost:11434"
    aliases = config.routing.model_aliases
    assert aliases["mixed"].split == {"qwen": 2, "mixed-3": 1}
    assert aliases["two"].split == {"x": 1, "y": 1}
    assert config.tenants.pricing["y"].prompt_per_1m == 1
    assert config.tenants.named["default"].keys[0].scopes == ("user", "admin")
    assert left.keys() == {"weight", "z", "7"}
    assert [worker.models for worker in config.workers if worker.models] == [("mixed-3", "same", "one")]
    assert (aliases["q"].split, aliases["o2"]) == ({"x": 1, "y": 1}, "llama3")


def test_it_is_printed_where_no_file_is_named():
    done = run_command("import", "litellm", FILES / "own_and_hosted.yaml")
    assert yaml.safe_load(done.stdout)["workers"][0]["url"] == "http://10.0.0.5:8000"


@pytest.mark.parametrize("text", ["{}", "model_list: 5", "- a", "a: [", "model_list: [5, {model_name: x}]"])
def test_what_is_no_such_file_is_one_clear_sentence(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    done = run_command("import", "litellm", path)
    assert "Traceback" not in done.stderr
    assert done.exit_code == (0 if "model_name" in text else 2)
    assert done.stderr
