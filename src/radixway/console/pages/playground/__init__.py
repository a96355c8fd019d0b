"""*Playground*: a prompt, and everything that is made of it: signals, decision, worker, and the answer."""

from radixway.console.pages.playground.page import PAGE

__all__ = ["PAGE"]
