"""YAML that the pages show is configuration that loads, JSON is JSON; what is neither says so."""

import textwrap

import pytest
import yaml
from typer.testing import CliRunner

from radixway.cli import app
from radixway.core.config import Config
from support.pages import BLOCKS, Block, read_json

SHOWN = {
    language: [block for block in BLOCKS if block.language == language and "output" not in block.notes]
    for language in ("yaml", "json")
}


@pytest.mark.parametrize("block", SHOWN["yaml"], ids=str)
def test_yaml_is_configuration_that_loads(block: Block, tmp_path, monkeypatch):
    text = block.text.replace("…", "x" * 16)
    if "not run" in block.notes:
        assert yaml.safe_load(text) is not None
        return
    for key in reversed(block.notes.get("fragment of", "").split(".")):
        if key:
            text = f"{key}:\n{textwrap.indent(text, '  ')}"
    unknown = yaml.safe_load(text).keys() - Config.model_fields.keys()
    assert not unknown, f"{block}: radixway.yaml has no {unknown}; say what this is: not run, fragment of"
    monkeypatch.chdir(tmp_path)
    for name, tree in yaml.safe_load(block.notes.get("setup", "{}")).items():
        (tmp_path / name).write_text(yaml.safe_dump(tree))
    (tmp_path / "radixway.yaml").write_text(text)
    checked = CliRunner().invoke(app, ["config", "check", "radixway.yaml"])
    assert checked.exit_code == 0, f"{block}\n{checked.output}"


@pytest.mark.parametrize("block", SHOWN["json"], ids=str)
def test_json_is_json(block: Block):
    assert read_json(block.text)
