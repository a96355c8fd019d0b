"""*Requests*: the latest ones as a list to search, and each one's way through the gateway."""

from radixway.console.pages.requests.page import PAGE

__all__ = ["PAGE"]
