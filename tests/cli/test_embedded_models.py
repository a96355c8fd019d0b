"""Which of the two models of `radixway up` answers `auto`."""

import json
from pathlib import Path
from typing import Any

import pytest

from radixway.bundled import read_toml
from radixway.cli.embedded_models import make_engines
from radixway.core.config import Config, EncodersConfig, load_config
from radixway.core.config.semantic import SemanticConfig
from radixway.semantics.decisions.dry_run import open_offline, run_case
from radixway.semantics.decisions.rule_cases import LocatedCase, SemanticCase
from support.free_ports import find_port

GUIDE, SMOLLM2 = "radixway-guide", "SmolLM2-135M-Instruct"


def configured(tmp_path: Path, port: int, *, small: bool = False, **sections: Any) -> Config:
    """The gateway's configuration with its engines."""
    path = tmp_path / "radixway.yaml"
    path.write_text(json.dumps(sections))
    return make_engines(load_config(path), None, None, port, small=small)[1]


def test_two_engines_are_two_workers_with_rules_between_them(tmp_path: Path) -> None:
    port = find_port()
    config = configured(tmp_path, port)
    assert len({worker.url for worker in config.workers}) == 2
    assert str(config.workers[0].url).endswith(f":{port}")
    assert config.semantic is not None and config.semantic.is_on
    assert {model for rule in config.semantic.policy_rules for model in rule.models} == {GUIDE, SMOLLM2}


def test_the_engines_key_is_sent_to_both(tmp_path: Path) -> None:
    config = configured(tmp_path, find_port(), engine={"api_key": "hush"})
    assert [worker.api_key for worker in config.workers] == [config.engine.api_key] * 2


@pytest.mark.parametrize(
    "sections",
    [
        {"engine": {"model": "bundled"}},
        {"engine": {"kv_events_endpoint": "tcp://*:5557"}},
        {"workers": [{"url": "http://127.0.0.1:1"}]},
    ],
)
def test_a_configured_model_or_worker_leaves_one_engine_and_no_rules(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    config = configured(tmp_path, find_port(), **sections)
    assert len(config.workers) == 1 + len(sections.get("workers", ()))
    assert config.semantic is None


def test_configured_rules_stay_as_they_are(tmp_path: Path) -> None:
    config = configured(tmp_path, find_port(), semantic={"default_model": GUIDE})
    assert config.semantic is not None and config.semantic.default_model == GUIDE
    assert not config.semantic.policy_rules and len(config.workers) == 2


def test_without_the_sentence_model_words_alone_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import radixway.cli.embedded_models as models

    found = models.find_spec
    monkeypatch.setattr(models, "find_spec", lambda name: None if "minilm" in name else found(name))
    config = configured(tmp_path, find_port())
    assert config.semantic is not None
    assert config.semantic.keyword_rules and not config.semantic.embedding_rules


QUESTIONS = {
    GUIDE: [
        "What is Radixway?",
        "How does Radixway choose a worker?",
        "What happens when a worker dies?",
        "How do I add a GPU server?",
        "How do I create an API key?",
        "Can I put it in front of vLLM?",
        "What is the KV cache?",
        "Which port does the gateway use?",
        "How can I see why a request went to this worker?",
        "Do I need a GPU?",
        "Radixway 怎么选择 worker？",
        "什么是前缀缓存？",
    ],
    SMOLLM2: [
        "What is the capital of France?",
        "Write a haiku about rain.",
        "Explain photosynthesis in two sentences.",
        "How do I cook rice?",
        "Who wrote Romeo and Juliet?",
        "My landlord won't return my deposit, what can I do?",
        "Write a Python function that reverses a list.",
        "How many items fit in working memory?",
        "What is quantitative easing?",
        "Give me three names for a cat.",
        "法国的首都是哪里？",
    ],
}


@pytest.mark.parametrize(
    ("model", "text"), [(model, text) for model in QUESTIONS for text in QUESTIONS[model]]
)
async def test_product_and_serving_go_to_the_guide_and_all_else_to_smollm2(
    one_encoder: Any, monkeypatch: pytest.MonkeyPatch, model: str, text: str
) -> None:
    monkeypatch.setattr("radixway.semantics.encoders.factory.load_encoder", lambda config: one_encoder)
    section = SemanticConfig.model_validate(read_toml("quickstart_rules.toml"))
    async with open_offline(section, EncodersConfig()) as layer:
        case = SemanticCase.model_validate({"text": text, "expect": {"model": model}})
        result = await run_case(layer, LocatedCase(case, "here"))
    assert result.passed, (result.failures, result.why)
