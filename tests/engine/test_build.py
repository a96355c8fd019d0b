"""Building an engine ends in a sentence when the machine is too small for it."""

import json
from pathlib import Path

import pytest

from radixway.core.config.engine import EngineConfig
from radixway.engine.build import build_core
from radixway.engine.errors import EngineError
from radixway.engine.model_loader import find_model


def test_a_context_that_no_memory_holds_is_told(tmp_path: Path) -> None:
    bundled = find_model("bundled")
    config = json.loads((bundled / "config.json").read_text())
    config["max_position_embeddings"] = 10**12
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineError, match="does not fit in memory with a context of 1000000000000"):
        build_core(EngineConfig(model=str(tmp_path), load_format="dummy"))
