"""Keys that were renamed are still read."""

import logging

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.core.config.renamed_keys import RENAMED_KEYS, rename_keys

VALUES = {"telemetry.log_level": "warning"}
"""For each old name a value that is not the default."""


def nested(key, value):
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def read(config, key):
    for part in key.split("."):
        config = getattr(config, part)
    return config


def variable(key):
    return "RADIXWAY__" + key.replace(".", "__").upper()


def yaml_of(key, value):
    parts = key.split(".")
    lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(parts)]
    return "\n".join(lines) + f" {value}\n"


def test_every_old_name_is_tested():
    assert VALUES.keys() == RENAMED_KEYS.keys()


@pytest.mark.parametrize(("old", "value"), VALUES.items())
def test_an_old_key_in_the_file_is_read_with_a_warning(tmp_path, caplog, old, value):
    new = RENAMED_KEYS[old]
    file = tmp_path / "radixway.yaml"
    file.write_text(yaml_of(old, value))
    assert read(load_config(), new) != value
    with caplog.at_level(logging.WARNING, "radixway.core.config"):
        assert read(load_config(file), new) == value
    line = old.count(".") + 1
    assert caplog.messages == [f"{file}:{line}: {old} is now called {new}; the old name is still read"]


@pytest.mark.parametrize(("old", "value"), VALUES.items())
def test_an_old_variable_is_read_with_a_warning(monkeypatch, caplog, old, value):
    new = RENAMED_KEYS[old]
    monkeypatch.setenv(variable(old), value)
    assert read(load_config(), new) == value
    said = f"environment: {variable(old)}: {old} is now called {new}; the old name is still read"
    assert caplog.messages == [said]


@pytest.mark.parametrize(("old", "value"), VALUES.items())
def test_an_old_key_in_overrides_is_read(old, value):
    assert read(load_config(overrides=nested(old, value)), RENAMED_KEYS[old]) == value
    assert read(load_config(base=nested(old, value)), RENAMED_KEYS[old]) == value


def test_the_new_key_wins_in_one_source_and_the_later_source_wins_over_both(tmp_path, monkeypatch, caplog):
    file = tmp_path / "radixway.yaml"
    file.write_text("telemetry:\n  log_level: debug\n  logs:\n    level: error\n")
    assert load_config(file).telemetry.logs.level == "error"
    told = "telemetry.log_level is ignored: telemetry.logs.level, its new name, is given too"
    assert caplog.messages == [f"{file}:2: {told}"]
    monkeypatch.setenv("RADIXWAY__TELEMETRY__LOG_LEVEL", "warning")
    assert load_config(file).telemetry.logs.level == "warning"


def test_a_section_in_json_may_have_an_old_key(monkeypatch):
    monkeypatch.setenv("RADIXWAY__TELEMETRY", '{"log_level": "debug"}')
    assert load_config().telemetry.logs.level == "debug"


def test_a_mistake_in_an_old_key_is_told_by_its_old_name(tmp_path, monkeypatch):
    file = tmp_path / "radixway.yaml"
    file.write_text("telemetry:\n  log_level: loud\n  logs:\n    format: json\n")
    with pytest.raises(ConfigError, match=r"yaml:2: telemetry.log_level: Input should be"):
        load_config(file)
    monkeypatch.setenv("RADIXWAY__TELEMETRY__LOG_LEVEL", "loud")
    with pytest.raises(ConfigError, match="environment: RADIXWAY__TELEMETRY__LOG_LEVEL: telemetry.log_level"):
        load_config()


@pytest.mark.parametrize(
    "text",
    ["telemetry: 5\n", "telemetry: [log_level]\n", "telemetry:\n  log_level: debug\n  logs: 5\n"],
)
def test_what_is_no_section_is_told_as_ever(tmp_path, text):
    file = tmp_path / "radixway.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="this must be a mapping of keys"):
        load_config(file)


def test_a_tree_without_old_keys_is_left_alone(caplog):
    tree = {"telemetry": {"logs": {"level": "debug"}}}
    assert rename_keys(tree, str) is tree
    assert not caplog.messages
