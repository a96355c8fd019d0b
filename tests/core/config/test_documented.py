"""docs/configuration.md shows every key of its sections, with its default."""

import re
from pathlib import Path

import pytest
import yaml

from radixway.core.config import Config
from radixway.core.config.semantic import SemanticConfig

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
EXAMPLE = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
SHOWN = yaml.safe_load(EXAMPLE)


@pytest.mark.parametrize(
    "section",
    [
        "gateway",
        "limits",
        "routing",
        "pipeline",
        "trajectories",
        "encoders",
        "semantic_cache",
        "tenants",
        "scale",
        "discovery",
        "chat",
        "simulations",
        "telemetry",
        "ext_proc",
        "guard",
    ],
)
def test_a_section_is_shown_with_its_defaults(section):
    defaults = Config().model_dump(mode="json")[section]
    assert SHOWN[section].keys() == defaults.keys()
    given = Config.model_validate({section: SHOWN[section]}).model_dump(mode="json")[section]
    assert given == defaults


def test_no_key_is_shown_twice():
    def check(node):
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), f"line {node.start_mark.line + 1} of the example: {keys}"
        for child in node.value if isinstance(node.value, list) else ():
            for each in child if isinstance(child, tuple) else (child,):
                check(each)

    check(yaml.compose(EXAMPLE))


PUBLISHED = {"bert_model", "semantic_cache", "prompt_guard", "classifier", "api"}
WITHOUT_EFFECT = {"clear_route_cache", "embedding_models", "observability", "router", "listeners"}


def test_the_semantic_section_is_shown_with_its_defaults():
    defaults = SemanticConfig().model_dump(mode="json")
    shown = SHOWN["semantic"]
    assert shown.keys() == defaults.keys() - PUBLISHED - WITHOUT_EFFECT
    given = SemanticConfig.model_validate(shown).model_dump(mode="json")
    assert given == defaults
    assert all(name in PAGE.read_text() for name in PUBLISHED | WITHOUT_EFFECT)
