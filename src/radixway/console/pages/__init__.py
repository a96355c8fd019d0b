"""The pages, in the order of the navigation."""

from radixway.console.page import Page
from radixway.console.pages import workers

PAGES: tuple[Page, ...] = (workers.PAGE,)

__all__ = ["PAGES"]
