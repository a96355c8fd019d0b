"""*Chat*: the gateway's own chat service, with branches, plugins and answers that outlive the page."""

from radixway.console.pages.chat.page import PAGE

__all__ = ["PAGE"]
