"""The pages, in the order of the navigation."""

from radixway.console.page import ConsolePage
from radixway.console.pages import cache, guard, live, usage, welcome
from radixway.console.pages.chat import page as chat
from radixway.console.pages.keys import page as keys
from radixway.console.pages.playground import page as playground
from radixway.console.pages.prefixes import page as prefixes
from radixway.console.pages.requests import page as requests
from radixway.console.pages.rules import page as rules
from radixway.console.pages.simulate import page as simulate
from radixway.console.pages.workers import page as workers

_IN_ORDER = (
    *(welcome, live, workers, requests, prefixes, playground, chat),
    *(keys, usage, guard, cache, simulate, rules),
)
PAGES: tuple[ConsolePage, ...] = tuple(module.PAGE for module in _IN_ORDER)

__all__ = ["PAGES"]
