"""*Prefixes*: what prompts have in common, as a sunburst, a tree and a table; how hot, and by whom."""

from radixway.console.page import Page
from radixway.console.pages.prefixes.drawing import build

PAGE = Page(name="prefixes", path="/prefixes", icon="account_tree", key="x", build=build)
