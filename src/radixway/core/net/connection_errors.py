"""Say in words why a connection could not be made or broke."""

import socket
import ssl
from typing import Literal

import aiohttp

ConnectionErrorKind = Literal["certificate", "tls", "name", "refused", "timeout", "no_http", "unreachable"]


def explain_connection_error(
    error: BaseException, timeout_s: float | None = None
) -> tuple[ConnectionErrorKind, str]:
    """Return the kind of an error of aiohttp, of a socket or of TLS, and what it says without addresses.

    `timeout_s`: how long the answer was waited for.
    """
    found = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    match found:
        case ssl.SSLCertVerificationError():
            return "certificate", f"its TLS certificate is not valid: {found.verify_message}"
        case ssl.SSLError():
            reason = (found.reason or str(found)).replace("_", " ").lower()
            return "tls", f"TLS fails, does it speak https? ({reason})"
        case socket.gaierror():
            return "name", f"its name does not resolve: {found.strerror or found}"
        case ConnectionRefusedError():
            return "refused", "it refuses connections: nothing listens there"
        case TimeoutError():
            return "timeout", "no answer" + (f" within {timeout_s:g} s" if timeout_s is not None else "")
        case aiohttp.ClientResponseError():
            message = " ".join(found.message.split("\n")[0].split())[:100]
            return "no_http", f"what comes back is not HTTP ({message.rstrip(':')})"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "no_http", "it closes the connection without an answer"
        case OSError() if found.strerror:
            return "unreachable", found.strerror.lower()
    return "unreachable", str(found) or type(found).__name__
