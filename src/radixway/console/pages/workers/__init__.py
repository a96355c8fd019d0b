"""*Workers*: who answers requests, how they are, and adding and taking them out."""

from radixway.console.pages.workers.page import PAGE

__all__ = ["PAGE"]
