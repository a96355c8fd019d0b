"""Every page's commands and programs, in their order, against a live engine and gateway."""

from collections.abc import Iterator

import pytest

from support.engine_process import engine_process
from support.pages import EXECUTED, PAGES, Block, Page
from support.reader import reader_of


def _runs(block: Block) -> bool:
    return block.language in EXECUTED and ("not run" not in block.notes or "serves" in block.notes)


WITH_COMMANDS = [page for page in PAGES if any(map(_runs, page.blocks))]


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with engine_process() as (url, _):
        yield url


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_the_page_does_what_it_says(page: Page, engine: str, tmp_path):
    with reader_of(page, tmp_path, engine) as reader:
        reader.read(page)
