"""The pages, in the order of the navigation."""

from radixway.console.page import Page
from radixway.console.pages import chat, live, playground, requests, rules, workers

PAGES: tuple[Page, ...] = (
    live.PAGE,
    workers.PAGE,
    requests.PAGE,
    playground.PAGE,
    chat.PAGE,
    rules.PAGE,
)

__all__ = ["PAGES"]
