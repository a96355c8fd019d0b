"""The mark a gateway puts on every request it passes on, by which it knows one that comes back to it.

RFC 9110, section 7.6.3. Without it a gateway that is given its own URL as a worker would ask itself for ever.
"""

from __future__ import annotations

import secrets

from radixway.web.asgi import Scope
from radixway.web.errors import HttpError


class LoopDetectedError(HttpError):
    """The request has passed this gateway before."""

    status = 508
    code = "loop_detected"


class LoopGuard:
    """One gateway's mark."""

    def __init__(self) -> None:
        self._name = f"radixway-{secrets.token_hex(6)}".encode("ascii")
        self.value = b"1.1 " + self._name
        """The header's value."""

    def check_loop(self, scope: Scope) -> None:
        """Raises LoopDetectedError if the request bears our own mark."""
        for name, value in scope["headers"]:
            if name == b"via" and self._name in value:
                raise LoopDetectedError("this gateway is its own worker, directly or through others")
