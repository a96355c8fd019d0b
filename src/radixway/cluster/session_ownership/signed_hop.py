"""The signed header of a request that one gateway passes on to another."""

import hmac
from collections.abc import Callable
from ipaddress import ip_address

from radixway.core.http import HttpError, Scope

HEADER = b"x-radixway-passed-on"
_MAX_CLOCK_SKEW_S = 60.0
"""Largest difference between two gateways' clocks."""


class InvalidHopSignatureError(HttpError):
    """The gateway that passed the request on has another key, or another time."""

    status = 403
    code = "bad_seal"
    param = HEADER.decode()


class HopSigner:
    """`TIME CLIENT MAC`, by a key that all gateways share; HMAC-SHA256, over method and path too.

    The client's address decides what may be administered and which hops are believed, so it is believed
    from a gateway alone.
    """

    def __init__(self, key: str, clock: Callable[[], float]) -> None:
        """`clock`: since the epoch."""
        self._key = key.encode()
        self._clock = clock

    def sign_hop(self, scope: Scope) -> str:
        """The header's value for a request that goes to its owner now."""
        client = scope.get("client")
        claim = f"{self._clock():.3f} {client[0] if client else '-'}"
        return f"{claim} {self._mac(scope, claim)}"

    def verify_hop(self, scope: Scope, value: bytes) -> tuple[str, int] | None:
        """Verify `value` and return the client's address. Raises InvalidHopSignatureError."""
        claim, _, mac = value.decode("latin-1").rpartition(" ")
        if not hmac.compare_digest(mac.encode(), self._mac(scope, claim).encode()):
            raise InvalidHopSignatureError("this was passed on with another key than scale.gateways.key")
        at, _, host = claim.partition(" ")
        if abs(self._clock() - float(at)) > _MAX_CLOCK_SKEW_S:
            raise InvalidHopSignatureError(
                "this was passed on at another time than now: the gateways' clocks differ"
            )
        try:
            return str(ip_address(host)), 0
        except ValueError:
            return None  # a socket in the file system

    def _mac(self, scope: Scope, claim: str) -> str:
        path = scope["path"].encode("utf-8", "surrogateescape")
        method = scope.get("method", "GET").encode()  # a WebSocket begins as one
        message = b"\n".join([claim.encode("latin-1"), method, path, scope["query_string"]])
        return hmac.new(self._key, message, "sha256").hexdigest()


def read_hop_header(scope: Scope) -> bytes | None:
    """Return the hop header of a request; None if it was not passed on."""
    return next((value for name, value in scope["headers"] if name == HEADER), None)


def is_signed_hop(scope: Scope) -> bool:
    """Return True if the request claims to be passed on; `verify_hop` checks the claim."""
    return scope["type"] == "http" and read_hop_header(scope) is not None
