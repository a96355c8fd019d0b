"""README.md from its first command on, as who reads it first would type it."""

import pytest

from support.pages import Page
from support.reader import reader_of


@pytest.mark.slow
def test_the_first_commands_do_what_the_readme_says(tmp_path):
    page = Page("README.md")
    with reader_of(page, tmp_path) as reader:
        for block in page.blocks:
            if "serves" not in block.notes:  # test_pages.py follows those, too
                reader.follow(block)
        reader.close()
