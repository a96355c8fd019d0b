"""The `tenants` section: what can be written there, and what is told of mistakes."""

from pathlib import Path

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.core.telemetry import MetricsRegistry
from radixway.core.tenants import KeyRing, build_tenant_service


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "radixway.yaml"
    path.write_text(text)
    return path


def ring(**keys) -> KeyRing:
    return KeyRing(load_config(overrides={"tenants": {"acme": {"keys": [keys]}}}).tenants)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tenants:\n  acme:\n    rates: {concurent: 3}\n", r"yaml:3: tenants\.acme\.rates\.concurent"),
        ("tenants:\n  acme:\n    keys:\n    - {user: ann}\n", r"yaml:4: .*give one of key, key_env"),
        ("tenants:\n  acme:\n    keys:\n    - {key: a, key_env: B}\n", r"yaml:4: .*give one of key"),
        (
            "tenants:\n  acme:\n    quotas: {cost_per_day: 0}\n",
            r"yaml:3: tenants\.acme\.quotas\.cost_per_day",
        ),
        ("tenants:\n  a b: {}\n", r"'a b' is no name"),
        ("tenants:\n  usge: {persist: true}\n", r"yaml:2: tenants\.usge\.persist: there is no such key"),
        ("tenants:\n  acme: {guard: ../policy}\n", r"yaml:2: tenants\.acme\.guard"),
        ("tenants:\n  acme: {cache_salt: ''}\n", r"yaml:2: tenants\.acme\.cache_salt"),
    ],
)
def test_a_mistake_is_told_by_its_line(tmp_path, text, told):
    with pytest.raises(ConfigError, match=told):
        load_config(written(tmp_path, text))


def test_mistakes_about_a_key_do_not_repeat_it(tmp_path):
    text = "tenants:\n  acme:\n    keys:\n    - {key: Tschüss-geheim, scopes: [king]}\n"
    with pytest.raises(ConfigError) as told:
        load_config(written(tmp_path, text))
    assert "scopes" in str(told.value) and "geheim" not in str(told.value)


def test_tenants_can_stand_in_the_environment(monkeypatch):
    monkeypatch.setenv("RADIXWAY__TENANTS__ACME__KEYS", '[{"key": "secret"}]')
    monkeypatch.setenv("RADIXWAY__TENANTS__ACME__MODELS", '["m"]')
    monkeypatch.setenv("RADIXWAY__TENANTS__ACME__RATES__CONCURRENT", "3")
    acme = load_config().tenants.named["acme"]
    assert (acme.rates.concurrent, acme.models, len(acme.keys)) == (3, ("m",), 1)


def test_secrets_are_masked_where_the_configuration_is_shown():
    config = load_config(
        overrides={"tenants": {"acme": {"keys": [{"key": "hush"}], "cache_salt": "whisper"}}}
    )
    shown = config.model_dump_json()
    assert "acme" in shown and "hush" not in shown and "whisper" not in shown


def test_a_key_is_found_where_the_configuration_says_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("ACME_KEY", "from-env")
    (tmp_path / "key").write_text("from-file\n")
    places = {"from-env": {"key_env": "ACME_KEY"}, "from-file": {"key_file": str(tmp_path / "key")}}
    for key, place in places.items():
        found = ring(**place, user="ann").find_key([(b"authorization", f"Bearer {key}".encode())])
        assert found is not None and (found.tenant, found.user) == ("acme", "ann")
        assert ring(**place).find_key([(b"authorization", f"Basic {key}".encode())]) is None


def test_a_header_that_had_a_known_key_is_known_again_and_no_other_is():
    known = ring(key="secret")
    for _ in range(3):
        assert known.find_key([(b"authorization", b"Bearer secret")]) is not None
        assert known.find_key([(b"authorization", b"bearer  secret ")]) is not None
        for name, value in (
            (b"x-api-key", b"Bearer secret"),
            (b"authorization", b"secret"),
            (b"authorization", b"Bearer Secret"),
            (b"authorization", b"Bearer secret2"),
            (b"cookie", b"Bearer secret"),
        ):
            assert known.find_key([(name, value)]) is None
        both = [(b"authorization", b"Bearer other"), (b"x-api-key", b"secret")]
        assert known.find_key(both) is not None


def test_a_key_that_is_not_there_is_told_at_the_start(tmp_path):
    with pytest.raises(ConfigError, match=r"tenants\.acme\.keys\.0\.key_env: NO_SUCH_KEY: there is no key"):
        ring(key_env="NO_SUCH_KEY")
    with pytest.raises(ConfigError, match=r"tenants\.acme\.keys\.0\.key_file: .*absent cannot be read"):
        ring(key_file=str(tmp_path / "absent"))


def test_one_key_cannot_be_two_tenants():
    tenants = {name: {"keys": [{"key": "same"}]} for name in ("acme", "rival")}
    with pytest.raises(ConfigError, match=r"tenants\.rival\.keys\.0: the same key stands under acme"):
        KeyRing(load_config(overrides={"tenants": tenants}).tenants)


def test_costs_are_not_held_against_a_quota_in_another_currency():
    tenants = {
        "acme": {"quotas": {"cost_per_day": 1, "currency": "EUR"}},
        "pricing": {"m": {"prompt_per_1m": 1}},
    }
    with pytest.raises(
        ConfigError, match=r"tenants\.acme\.quotas\.currency: is EUR, and .*pricing\.m in USD"
    ):
        build_tenant_service(load_config(overrides={"tenants": tenants}).tenants, MetricsRegistry())


def test_nothing_configured_builds_nothing():
    assert build_tenant_service(load_config().tenants, MetricsRegistry()) is None
