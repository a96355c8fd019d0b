"""*Prefixes*: what prompts have in common, as a sunburst, a tree and a table; how hot, and by whom."""

from radixway.console.pages.prefixes.page import PAGE

__all__ = ["PAGE"]
