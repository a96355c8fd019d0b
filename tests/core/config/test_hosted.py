"""Hosted workers in the configuration."""

import pytest

from radixway.core.config import ConfigError, CredentialMissingError, load_config

OPENAI = {"provider": "openai", "models": {"fast": "gpt-5-mini"}}
AZURE = {"provider": "azure", "base_url": "https://a.openai.azure.com/", "models": ["m"]}


def load(*workers, **routing):
    return load_config(overrides={"workers": list(workers), "routing": routing})


def test_a_worker_is_completed_from_its_provider():
    (worker,) = load({**OPENAI, "models": ["gpt-5", "gpt-5-mini"]}).workers
    assert (worker.url, worker.models, worker.pools) == (
        "https://api.openai.com/v1",
        ("gpt-5", "gpt-5-mini"),
        ("hosted",),
    )
    (worker,) = load({**AZURE, "deployment": "d"}).workers
    assert (worker.url, worker.names) == ("https://a.openai.azure.com", {"m": "d"})
    (worker,) = load({"provider": "bedrock", "region": "eu-west-1", "models": ["x"]}).workers
    assert worker.url == "https://bedrock-runtime.eu-west-1.amazonaws.com"


def test_yaml_takes_an_api_version_for_a_date(tmp_path):
    path = tmp_path / "radixway.yaml"
    path.write_text(
        "workers: [{provider: azure, base_url: https://a.b, models: [m], api_version: 2024-06-01}]"
    )
    assert load_config(path).workers[0].api_version == "2024-06-01"


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        ([{"provider": "opnai", "models": ["m"]}], "provider"),
        ([{"provider": "openai"}], "models"),
        ([{"provider": "azure", "models": ["m"]}], "base_url"),
        ([{**OPENAI, "role": "decode"}], "role is of engines"),
        ([{**OPENAI, "regoin": "x"}], "regoin"),
        ([{**OPENAI, "api_key": "k", "api_key_env": "K"}], "give one of api_key"),
        ([{**OPENAI, "pricing": {"slow": {"prompt_per_1m": 1}}}], "'slow' is not among its models"),
        ([OPENAI, OPENAI], "give each a name"),
        ([{**AZURE, "models": ["a", "b"], "deployment": "d"}], "deployment is one model's"),
    ],
)
def test_a_mistake_is_told_by_its_place(workers, told):
    with pytest.raises(ConfigError, match="workers") as error:
        load(*workers)
    assert told in str(error.value)


def test_two_keys_of_one_address_are_told_apart_by_name():
    first, second = load(OPENAI, {**OPENAI, "name": "second"}).workers
    assert (first.url, second.url) == ("https://api.openai.com/v1", "https://api.openai.com/v1#second")


def test_a_key_is_read_when_it_is_needed(tmp_path, monkeypatch):
    path = tmp_path / "key"
    (worker,) = load({**OPENAI, "api_key_file": str(path)}).workers
    with pytest.raises(CredentialMissingError, match="key"):
        worker.read_key()
    path.write_text("sk-1\n")
    assert worker.read_key() == "sk-1"
    path.write_text("sk-2\n")
    assert worker.read_key() == "sk-2"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-3")
    assert load(OPENAI).workers[0].read_key() == "sk-3"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(CredentialMissingError, match="OPENAI_API_KEY is not set"):
        load(OPENAI).workers[0].read_key()
    compatible = {"provider": "openai-compatible", "base_url": "http://a/v1", "models": ["m"]}
    assert load(compatible).workers[0].read_key() is None


@pytest.mark.parametrize("split", [{}, {"a": 0}, {"a": -1}, {"a*": 1}, {"": 1}])
def test_a_split_needs_models_and_weights(split):
    with pytest.raises(ConfigError, match="model_aliases"):
        load(model_aliases={"fast": {"split": split}})
