"""The small model directories that all tests here share."""

from pathlib import Path

import pytest

from support.small_tokenizers import make_model_dirs


@pytest.fixture(scope="session")
def model_dirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_model_dirs(tmp_path_factory.mktemp("models"))
