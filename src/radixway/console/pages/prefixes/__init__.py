"""*Prefixes*: what prompts have in common, as a sunburst, a tree and a table; how hot, and by whom."""

from radixway.console.page import ConsolePage
from radixway.console.pages.prefixes.page import build_prefixes_page

PAGE = ConsolePage(name="prefixes", path="/prefixes", icon="account_tree", key="x", build=build_prefixes_page)
