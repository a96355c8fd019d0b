"""*Rules*: what judges requests, edited: checked by line, compared, tried on requests of late, applied."""

from radixway.console.pages.rules.page import PAGE

__all__ = ["PAGE"]
