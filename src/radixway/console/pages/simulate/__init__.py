"""*Simulate*: policies compared on a trace, one's own or one that is made up."""

from radixway.console.pages.simulate.page import PAGE

__all__ = ["PAGE"]
