"""The `semantic` section: our own form, the October-2025 file and v0.1's, and what is said of mistakes."""

from pathlib import Path

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.core.config.semantic import load_semantic, merge_semantic_file

DATA = Path(__file__).parents[2] / "data" / "semantic"
OCTOBER = DATA / "october_2025.yaml"


def mistakes(tmp_path, text: str) -> list[str]:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        load_semantic(path)
    return str(told.value).splitlines()


def test_the_october_file_loads_as_it_is():
    section = load_semantic(OCTOBER)
    assert section.default_model == "phi4" and section.default_reasoning_effort == "high"
    math = section.categories[0]
    assert math.model_scores[0].model == "deepseek-v31" and math.model_scores[0].use_reasoning
    assert [rule.name for rule in section.keyword_rules] == ["math", "business"]
    assert section.embedding_rules[0].candidates[0].startswith("How should we price")
    assert section.models["deepseek-v31"].pricing.completion_per_1m == 2.19
    assert [endpoint.url for endpoint in section.vllm_endpoints] == [
        "http://127.0.0.1:8001",
        "http://127.0.0.1:8002",
    ]


def test_v0_1_signals_and_decisions_load():
    section = load_semantic(DATA / "v0_1.yaml")
    assert section.signals.context[0].min_tokens == 32_000
    assert section.signals.context[0].max_tokens == 1_500_000
    first = section.decisions[0]
    assert first.rules.conditions[2].operator == "NOT"
    assert first.model_refs[0].model == "qwen3"


def test_the_section_may_name_the_file_and_override_its_keys(tmp_path):
    config = load_config(overrides={"semantic": {"config": str(OCTOBER), "default_model": "qwen3"}})
    whole = merge_semantic_file(config.semantic)
    assert whole.default_model == "qwen3"
    assert whole.categories[0].name == "math"


def test_a_file_with_a_mistake_is_told_when_the_configuration_is_loaded(tmp_path):
    file = tmp_path / "router.yaml"
    file.write_text("default_model: m\nbert_modle:\n  threshold: 1\n")
    with pytest.raises(ConfigError, match=r"router\.yaml:2: bert_modle: there is no such key"):
        load_config(overrides={"semantic": {"config": str(file)}})


def test_a_mistake_in_the_section_is_told_with_its_line(tmp_path):
    file = tmp_path / "radixway.yaml"
    file.write_text("gateway: {port: 1}\nsemantic:\n  default_model: m\n  categories:\n    - nmae: math\n")
    with pytest.raises(ConfigError) as told:
        load_config(file)
    assert "radixway.yaml:5: semantic.categories.0.name: Field required" in str(told.value)
    assert "radixway.yaml:5: semantic.categories.0.nmae: there is no such key" in str(told.value)


def test_use_reasoning_is_required(tmp_path):
    text = "categories:\n- name: math\n  model_scores:\n  - model: m\n    score: 1\n"
    assert mistakes(tmp_path, text)[0].split(": ", 1)[1] == (
        "categories.0.model_scores.0.use_reasoning: Field required"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("categories:\n- name: math\n", "config.yaml:2: categories.0: math needs model_scores"),
        (
            "model_config:\n  m:\n    reasoning_family: qwen\n",
            "config.yaml:3: model_config.m.reasoning_family",
        ),
        ("model_config:\n  m:\n    preferred_endpoints: [e]\n", "there is no endpoint 'e'"),
        ("vllm_endpoints:\n- name: e\n  address: http://a\n  port: 1\n", "config.yaml:3: vllm_endpoints.0"),
        (
            "categories:\n- name: a\n- name: a\ndefault_model: m\n",
            "config.yaml:3: categories.1: 'a' comes twice",
        ),
        (
            "decisions:\n- name: d\n  rules: {type: keyword, name: nope}\n  modelRefs: [{model: m}]\n",
            "config.yaml:3: decisions.0.rules.name: there is no keyword signal 'nope'",
        ),
        ("policy_rules:\n- {name: p, condition: 'true', action: boost_category}\n", "needs the category"),
        ("signals:\n  context:\n  - {name: long, min_tokens: many}\n", "like 500, 32K or 1.5M"),
        ("default_model: a\ndefault_model: b\n", "config.yaml:2: not valid YAML: the key default_model"),
        ("config: other.yaml\n", "config.yaml:1: config: a semantic file cannot name another one"),
    ],
)
def test_what_is_wrong_is_told_by_path_and_line(tmp_path, text, said):
    assert any(said in line for line in mistakes(tmp_path, text))


def test_mappings_merged_into_each_other_without_an_end_are_refused(tmp_path):
    text = "m0: &m0 {key: value}\n"
    for level in range(1, 30):
        text += f"m{level}: &m{level}\n  <<: [{', '.join([f'*m{level - 1}'] * 9)}]\n"
    assert "more than 10000 keys are merged here" in mistakes(tmp_path, text)[0]


def test_of_very_many_mistakes_the_first_are_told_and_the_others_counted(tmp_path):
    told = mistakes(tmp_path, "".join(f"key_{number}: 1\n" for number in range(1000)))
    assert told[99].endswith("100: key_99: there is no such key")
    assert told[100:] == [f"{tmp_path / 'config.yaml'}: and 900 mistakes more"]


def test_it_is_off_until_configured_and_on_then():
    assert load_config().semantic is None
    assert load_config(overrides={"semantic": {"default_model": "m"}}).semantic.is_on
    assert not load_config(overrides={"semantic": {"default_model": "m", "enabled": False}}).semantic.is_on


def test_the_environment_reaches_into_the_section(monkeypatch):
    monkeypatch.setenv("RADIXWAY__SEMANTIC__DEFAULT_MODEL", "from-outside")
    assert load_config().semantic.default_model == "from-outside"


def test_the_shown_configuration_reads_back_the_same():
    config = load_config(overrides={"semantic": {"model_config": {"m": {"reasoning_family": "qwen3"}}}})
    shown = config.model_dump(mode="json")["semantic"]
    assert load_config(overrides={"semantic": shown}).semantic.models == config.semantic.models
