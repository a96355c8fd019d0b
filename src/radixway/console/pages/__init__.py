"""The pages, in the order of the navigation."""

from radixway.console.page import Page
from radixway.console.pages import live, workers

PAGES: tuple[Page, ...] = (live.PAGE, workers.PAGE)

__all__ = ["PAGES"]
