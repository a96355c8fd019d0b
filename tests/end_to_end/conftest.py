"""Two real engines for all tests of this folder."""

from collections.abc import Iterator

import pytest

from support.engine_process import engine_process


@pytest.fixture(scope="session")
def engines() -> Iterator[tuple[str, str]]:
    with engine_process() as (first, _), engine_process() as (second, _):
        yield first, second
