"""Where a setting comes from, and how a mistake is explained."""

import pytest

from radixway.core.config import ConfigError, check_worker_url, load_config


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
    ("workers:\n  - url: http://a\n    kv_events: on\n", ":3: workers.0.kv_events: this must be auto, off,"),
    (
        "workers:\n  - url: http://a\n    kv_events: {endpoint: 'tcp://b'}\n",
        ":3: workers.0.kv_events: endpoint: 'tcp://b' is no ZeroMQ endpoint: give tcp://",
    ),
    (
        "workers:\n  - url: http://a\n    kv_events: {endpoint: 'tcp://b:1', replay_endpoint: 'tcp://*:2'}\n",
        "workers.0.kv_events: replay_endpoint is the worker's: give its host, not *",
    ),
    (
        "workers:\n  - url: http://a\n    kv_events: {endpoint: 'ipc:///e', ranks: 2}\n",
        "workers.0.kv_events: several ranks need tcp endpoints",
    ),
    ("gateway:\n  port: 99999\n", ":2: gateway.port: "),
    ("routing:\n\n  polcy: x\n", ":3: routing.polcy: there is no such key"),
    ("nonsense: 1\n", ":1: nonsense: there is no such key"),
    ("workers:\n  - url: http://a\n  - url: ftp://b\n", ":3: workers.1.url: a worker's URL must be http(s)"),
    ("gateway: [\n", "not valid YAML"),
    ("- 1\n", ":1: the file must be a mapping"),
    ("gateway: {port: x}\ntelemetry: {logs: {level: loud}}\n", ":2: telemetry.logs.level: "),
    ("engine: {}\ngateway: 5\n", ":2: gateway: this must be a mapping"),
    ("engine: []\n", ":1: engine: this must be a mapping"),
    ("workers: 3\n", ":1: workers: this must be a list"),
    ("routing: {model_policies: 3}\n", ":1: routing.model_policies: this must be a mapping"),
    ("routing:\n  health: 3\n", ":2: routing.health: this must be a mapping"),
    ("gateway: {host: ''}\n", ":1: gateway.host: this must be a name or an address"),
    ('gateway: {host: "a\\0b"}\n', ":1: gateway.host: this must be a name or an address"),
    ('gateway: {host: "\\ud800"}\n', ":1: gateway.host: this must be a name or an address"),
    ("nonsense:\n", ":1: nonsense: there is no such key"),
]


NOT_YAML = [
    ("gateway:\n  port: 2020-13-45\n", ":2: not valid YAML: this is no timestamp"),
    ("gateway:\n  port: !!int 'abc'\n", ":2: not valid YAML: this is no int"),
    ("gateway: {port: !!int ''}\n", ":1: not valid YAML: this is no int"),
    ("engine: {seed: 0b_}\n", ":1: not valid YAML: this is no int"),
    ("engine: {radix_cache: !!bool perhaps}\n", ":1: not valid YAML: this is no bool"),
    ("gateway: {host: !!timestamp soon}\n", ":1: not valid YAML: this is no timestamp"),
    ("gateway: {host: !mine x}\n", ":1: not valid YAML: could not determine a constructor"),
    ('gateway: {host: "\\UFFFFFFFF"}\n', ": not valid YAML: "),
    ("gateway:\n  port: 1\n  port: 2\n", ":3: not valid YAML: the key port comes twice"),
    ("gateway: {? !!str {=: prot} : x}\n", "gateway.prot: there is no such key"),
    ("gateway: " + "[" * 5000, ": it is nested too deeply"),
    ("engine: &e {model: *e}\n", ":1: engine.model: "),
]


@pytest.mark.parametrize(("text", "told"), MISTAKES + NOT_YAML)
def test_a_mistake_is_told_with_its_line(tmp_path, text, told):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert told in str(caught.value)


def test_a_file_of_anchors_within_anchors_is_told_without_unfolding_them(tmp_path):
    lines = ["a0: &a0 {}", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    with pytest.raises(ConfigError, match=":60: a59: there is no such key"):
        load_config(write(tmp_path, "\n".join(lines)))


@pytest.mark.parametrize("content", [b"\x7fELF\0\0", b"gateway: {host: caf\xe9}", b"a: \0"])
def test_a_file_that_is_no_text_is_told_in_one_line(tmp_path, content):
    path = tmp_path / "radixway.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"^.*radixway\.yaml: .*$"):
        load_config(path)


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot read .*: Is a directory"):
        load_config(tmp_path)


def test_keys_of_a_merged_mapping_are_told_by_their_line(tmp_path):
    text = "gateway: &shared\n  port: 1\nengine:\n  <<: *shared\n  seed: 2\n"
    with pytest.raises(ConfigError, match=":2: engine.port: there is no such key"):
        load_config(write(tmp_path, text))


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


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~\n"])
def test_an_empty_file_says_nothing(tmp_path, text):
    assert load_config(write(tmp_path, text)) == load_config()


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


@pytest.mark.parametrize("key", ["hush\r\nx-evil: 1", "hush\n", "hush\t", "hush\x7f", "hushé", "hush\udc80"])
def test_a_secret_that_fits_in_no_header_is_refused_without_being_repeated(key):
    for overrides in ({"gateway": {"admin_key": key}}, {"workers": [{"url": "http://a", "api_key": key}]}):
        with pytest.raises(ConfigError, match="_key: .*printable ASCII") as caught:
            load_config(overrides=overrides)
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://a", "a:1", "http://", "http://u:p@a", "http://a?x=1", "http://a:99999", ""),
        *("http://a b", "http://a..b", "http://" + "a" * 64, "http://" + "a." * 128, "http://a\0"),
    ],
)
def test_a_worker_url_must_be_plain_http(url):
    with pytest.raises(ValueError):
        check_worker_url(url)


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "127.0.0.01", "127.0.0.1.", "10.0.0.256"])
def test_an_ipv4_address_has_one_spelling(host):
    with pytest.raises(ValueError, match="four plain numbers"):
        check_worker_url(f"http://{host}:80")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[::ffff:a00:1]", "gpu1", "1.gpu", "0xgpu", "gpu.", "a_b-c"]
)
def test_names_and_plain_addresses_are_worker_hosts(host):
    assert check_worker_url(f"http://{host}:1") == f"http://{host}:1"


@pytest.mark.parametrize(
    "url",
    [
        "http://u:hush@a",
        "http://u:hush@a:99999",
        "http://u:hu/sh@a",
        "u:hush@a",
        "http://hush@a/@b",
        "@hush@a",
    ],
)
def test_a_refused_worker_url_is_told_without_its_credentials(url):
    with pytest.raises(ValueError) as caught:
        check_worker_url(url)
    assert "hu" not in str(caught.value)


def test_off_needs_no_quotes_though_yaml_takes_it_for_false(tmp_path):
    parts = ", ".join(f"{part}: {{action: off}}" for part in ("pii", "system_prompt", "exfiltration"))
    guard = f"guard: {{answers: {{{parts}}}}}\n"
    category = "semantic: {default_model: m, categories: [{name: a, system_prompt_mode: off}]}\n"
    config = load_config(write(tmp_path, f"{guard}{category}workers: [{{url: http://a, kv_events: off}}]\n"))
    answers = config.guard.answers
    assert {answers.pii.action, answers.system_prompt.action, answers.exfiltration.action} == {"off"}
    assert config.workers[0].kv_events == "off"
    assert config.semantic.categories[0].system_prompt_mode == "off"
