"""README.md from its first command to its last, as who reads it first would type it."""

from docs.pages import Page
from docs.reader import reader_of


def test_the_readme_does_what_it_says(tmp_path):
    page = Page("README.md")
    with reader_of(page, tmp_path) as reader:
        reader.read(page)
