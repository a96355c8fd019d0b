"""*Rules*: what judges requests, edited: checked by line, compared, replayed on recent requests, applied."""

from radixway.console.pages.rules.page import PAGE

__all__ = ["PAGE"]
