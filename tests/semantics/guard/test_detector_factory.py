"""Which classifier judges, by the keys of `guard` and of a vLLM-Semantic-Router configuration."""

from __future__ import annotations

import gc

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.core.config.guard import is_guard_requested
from radixway.gateway.app import Gateway
from radixway.semantics.encoders import start_service
from radixway.semantics.guard.detector_factory import build_finder, build_judge

PII_MODEL = {"threshold": 0.6}


def opened(**sections):
    """What a finder and a judge of that configuration read with: nothing is loaded for it."""
    config = load_config(overrides=sections)
    encoders = start_service(config.encoders)
    finder, judge = (each(config, config.semantic, encoders) for each in (build_finder, build_judge))
    return finder, judge


def test_the_guards_own_key_goes_before_the_classic_one_and_that_before_what_lies_in_the_folder(tmp_path):
    own, classic, found = (tmp_path / name for name in ("own", "classic", "models/pii_classifier_model"))
    for directory in (own, classic, found):
        directory.mkdir(parents=True)
        (directory / "config.json").write_text('{"model_type": "modernbert"}')
    encoders = {"classifiers": str(tmp_path / "models")}
    semantic = {
        "default_model": "m",
        "classifier": {"pii_model": {"model_id": str(classic), "threshold": 0.6}},
    }
    assert opened(encoders=encoders)[0].path == found
    finder, _ = opened(encoders=encoders, semantic=semantic)
    assert (finder.path, finder.threshold) == (classic, 0.6)
    finder, _ = opened(
        encoders=encoders, semantic=semantic, guard={"pii": {"model": str(own), "threshold": 0.5}}
    )
    assert (finder.path, finder.threshold) == (own, 0.5)
    assert opened()[0].path.name == "pii.npz"


def test_prompt_guards_model_judges_and_else_the_published_one_under_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "models" / "lora_jailbreak_classifier_modernbert_model"
    named = tmp_path / "named"
    for directory in (found, named):
        directory.mkdir(parents=True)
    guard = {"enabled": True, "threshold": 0.4}
    _, judge = opened(semantic={"prompt_guard": guard})
    assert judge.threshold == 0.4 and judge.describe()["reads"].endswith(found.name)
    _, judge = opened(semantic={"prompt_guard": guard | {"model_id": str(named)}})
    assert judge.describe()["reads"] == str(named)


def test_a_directory_that_is_not_there_is_told_at_the_start(tmp_path):
    for part in ("pii", "jailbreak"):
        with pytest.raises(ConfigError, match=rf"guard\.{part}\.model"):
            opened(guard={part: {"model": str(tmp_path / "none")}})


async def test_a_gateway_that_cannot_start_leaves_no_connections_open(tmp_path, caplog):
    guard = {"pii": {"model": str(tmp_path / "none")}}
    with pytest.raises(ConfigError):
        async with Gateway(load_config(overrides={"guard": guard})).running():
            pass
    gc.collect()
    assert "Unclosed" not in caplog.text


def test_long_texts_are_read_whole_unless_they_may_be_read_fast():
    finder, judge = opened(guard={"long_texts": {"from_characters": 9000}})
    assert (finder.in_part_from, judge.reader.in_part_from) == (None, None)
    finder, judge = opened(guard={"long_texts": {"reading": "fast", "from_characters": 9000}})
    assert (finder.in_part_from, judge.reader.in_part_from) == (9000, 9000)


def test_what_is_said_of_long_texts_switches_no_guard_on():
    assert not is_guard_requested(load_config(overrides={"guard": {"long_texts": {"reading": "fast"}}}).guard)
