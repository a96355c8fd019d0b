"""`/console`: a proxy, for HTTP and WebSocket, to the process that renders the pages.

The gateway starts that process with the first visit, or as soon as it listens (`console.preload`), and stops
it when it stops itself; the pages use the gateway's HTTP API alone.
"""

from radixway.api.console.proxy import ConsoleProxy

__all__ = ["ConsoleProxy"]
