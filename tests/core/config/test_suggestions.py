"""What is named beside a key, a section or a policy that does not exist."""

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.core.config.policies import parse_policy
from radixway.core.near_names import suggest_names


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("routng: {}", "routng: there is no such key; did you mean routing?"),
        ("gateway: {prot: 1}", "gateway.prot: there is no such key; did you mean port?"),
        ("routing: {health: {intervall_s: 1}}", "did you mean interval_s?"),
        ("workers: [{ulr: http://a}]", "did you mean url?"),
        ("tenants: {acme: {keyz: []}}", "did you mean keys?"),
        ("semantic: {decsions: []}", "did you mean decisions?"),
        ("routing: {policy: {name: kv_aware, overlap_wight: 8}}", "did you mean overlap_weight?"),
        ("routing: {policy: expected_tme}", "'expected_tme' is none of 'round_robin'"),
        ("routing: {policy: expected_tme}", "; did you mean expected_time?"),
    ],
)
def test_the_nearest_name_is_told(tmp_path, text, told):
    path = tmp_path / "radixway.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert told in str(error.value)


def test_a_key_that_is_like_no_other_is_told_alone(tmp_path):
    path = tmp_path / "radixway.yaml"
    path.write_text("gateway: {zzzzzz: 1}")
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert str(error.value).endswith("gateway.zzzzzz: there is no such key")


def test_a_section_of_the_environment_is_told_too(monkeypatch):
    monkeypatch.setenv("RADIXWAY__GATEWY__PORT", "1")
    with pytest.raises(ConfigError, match=r"did you mean GATEWAY\?"):
        load_config()


def test_a_policy_on_the_command_line_is_told_too():
    with pytest.raises(ValueError, match=r"did you mean prefix_affinity\?"):
        parse_policy("prefix_afinity")


def test_names_are_joined_in_words():
    assert suggest_names("worker", ["workers", "Worker2"]) == "; did you mean workers or Worker2?"
    assert suggest_names("x", ["workers"]) == suggest_names("w", ["workers"]) == ""
    assert suggest_names("smol", ["SmolLM2-135M-Instruct"]) == "; did you mean SmolLM2-135M-Instruct?"
