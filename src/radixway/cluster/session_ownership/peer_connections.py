"""Connections to the other gateways, held for as long as this one runs."""

import aiohttp

_CONNECT_S = 2.0


class PeerConnections:
    """TCP connections, by one pool. A subclass may have other ways to the gateways it knows."""

    same_name = False
    """Whether clients reach the others under the name by which they reach this one."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Hold connections from now on, in the running event loop."""
        self._session = make_session(aiohttp.TCPConnector(limit=0, keepalive_timeout=60))

    def session_for(self, url: str) -> aiohttp.ClientSession:
        """Return the session that reaches the gateway at `url`. Raises OSError: there is no way to it now."""
        assert self._session is not None, "open() comes first"
        return self._session

    async def close(self) -> None:
        """Let go of all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def make_session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    """Return a session that passes on what it gets as it is, over `connector`."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
    return aiohttp.ClientSession(
        timeout=timeout, connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    )
