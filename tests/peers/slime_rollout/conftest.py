import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ported(source, case): the original of a ported case")
