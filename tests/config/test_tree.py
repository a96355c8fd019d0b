"""Where a setting comes from, and how a mistake is explained."""

import pytest

from radixway.config import ConfigError, check_worker_url, load_config


def write(tmp_path, text):
    path = tmp_path / "radixway.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_has_a_default():
    config = load_config()
    assert config.gateway.port == 30000
    assert config.gateway.host == "127.0.0.1"


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(tmp_path, monkeypatch):
    path = write(tmp_path, "gateway: {port: 1, host: file, drain_s: 3}\n")
    monkeypatch.setenv("RADIXWAY__GATEWAY__PORT", "2")
    monkeypatch.setenv("RADIXWAY__GATEWAY__HOST", "env")
    config = load_config(path, {"gateway": {"host": "flag"}})
    assert (config.gateway.port, config.gateway.host, config.gateway.drain_s) == (2, "flag", 3)


def test_a_list_can_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("RADIXWAY__WORKERS", '[{"url": "http://a:1/"}]')
    assert [worker.url for worker in load_config().workers] == ["http://a:1"]


MISTAKES = [
    ("gateway:\n  port: 99999\n", ":2: gateway.port: "),
    ("routing:\n\n  polcy: x\n", ":3: routing.polcy: there is no such key"),
    ("nonsense: 1\n", ":1: nonsense: there is no such key"),
    ("workers:\n  - url: http://a\n  - url: ftp://b\n", ":3: workers.1.url: a worker's URL must be http(s)"),
    ("gateway: [\n", "not valid YAML"),
    ("- 1\n", ":1: the file must be a mapping"),
    ("gateway: {port: x}\ntelemetry: {log_level: loud}\n", ":2: telemetry.log_level: "),
    ("engine: {}\ngateway: 5\n", ":2: gateway: this must be a mapping"),
    ("engine: []\n", ":1: engine: this must be a mapping"),
    ("workers: 3\n", ":1: workers: this must be a list"),
    ("routing: {model_policies: 3}\n", ":1: routing.model_policies: this must be a mapping"),
    ("routing:\n  health: 3\n", ":2: routing.health: this must be a mapping"),
    ("nonsense:\n", ":1: nonsense: there is no such key"),
]


@pytest.mark.parametrize(("text", "told"), MISTAKES)
def test_a_mistake_is_told_with_its_line(tmp_path, text, told):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert told in str(caught.value)


def test_a_section_that_is_no_mapping_is_told_even_when_a_key_of_it_is_given_elsewhere(tmp_path, monkeypatch):
    below = {"gateway": {"port": 1}}
    with pytest.raises(ConfigError, match=":1: gateway: this must be a mapping"):
        load_config(write(tmp_path, "gateway: 5\n"), below)
    monkeypatch.setenv("RADIXWAY__GATEWAY", "5")
    with pytest.raises(ConfigError, match="environment: RADIXWAY__GATEWAY: .* a mapping"):
        load_config(write(tmp_path, "gateway: {port: 2}\n"), below)
    monkeypatch.delenv("RADIXWAY__GATEWAY")
    monkeypatch.setenv("RADIXWAY__GATEWAY__PORT__LOW", "5")
    with pytest.raises(ConfigError, match=r"gateway\.port: "):
        load_config(write(tmp_path, "gateway: {port: 2}\n"))


def test_a_section_whose_keys_are_all_commented_out_is_empty(tmp_path):
    path = write(tmp_path, "gateway:\n  # port: 1\nworkers:\nrouting:\n")
    assert load_config(path) == load_config()


def test_a_mistake_in_the_environment_is_told_with_its_variable(monkeypatch):
    monkeypatch.setenv("RADIXWAY__GATEWAY__PORT", "many")
    with pytest.raises(ConfigError, match="environment: RADIXWAY__GATEWAY__PORT"):
        load_config()
    monkeypatch.delenv("RADIXWAY__GATEWAY__PORT")
    monkeypatch.setenv("RADIXWAY__GATEWAI__PORT", "1")
    with pytest.raises(ConfigError, match="RADIXWAY__GATEWAI__PORT: there is no such section"):
        load_config()


def test_a_missing_file_is_told_in_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="cannot read .*: No such file"):
        load_config(tmp_path / "none.yaml")


def test_secrets_are_masked_when_shown(monkeypatch):
    monkeypatch.setenv("RADIXWAY__GATEWAY__ADMIN_KEY", "hush")
    assert "hush" not in str(load_config().model_dump(mode="json"))


@pytest.mark.parametrize(
    "url", ["ftp://a", "a:1", "http://", "http://u:p@a", "http://a?x=1", "http://a:99999", ""]
)
def test_a_worker_url_must_be_plain_http(url):
    with pytest.raises(ValueError):
        check_worker_url(url)
