"""`/console`: passed on, HTTP and WebSocket alike, to the process that draws the pages.

The gateway begins that process with the first visit, or as soon as it listens (`console.preload`), and ends
it with itself; the pages know the gateway by its HTTP API alone.
"""

from radixway.api.console.proxy import ConsoleProxy

__all__ = ["ConsoleProxy"]
