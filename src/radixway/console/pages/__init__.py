"""The pages, in the order of the navigation."""

from radixway.console.page import ConsolePage
from radixway.console.pages import chat, live, playground, prefixes, requests, rules, simulate, workers

PAGES: tuple[ConsolePage, ...] = (
    live.PAGE,
    workers.PAGE,
    requests.PAGE,
    prefixes.PAGE,
    playground.PAGE,
    chat.PAGE,
    simulate.PAGE,
    rules.PAGE,
)

__all__ = ["PAGES"]
