"""Why a worker cannot be talked to, in words that say what to mend, which libraries' errors seldom do."""

from __future__ import annotations

import socket
import ssl

import aiohttp

from radixway.routing import ErrorKind


def explain_connection_error(error: BaseException, within_s: float | None = None) -> tuple[ErrorKind, str]:
    """The kind of an error of aiohttp, of a socket or of TLS, and what it says without addresses.

    `within_s`: how long the answer was waited for.
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
            return "timeout", "no answer" + (f" within {within_s:g} s" if within_s is not None else "")
        case aiohttp.ClientResponseError():
            told = " ".join(found.message.split("\n")[0].split())[:100]
            return "no_http", f"what comes back is not HTTP ({told.rstrip(':')})"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "no_http", "it closes the connection without an answer"
        case OSError() if found.strerror:
            return "unreachable", found.strerror.lower()
    return "unreachable", str(found) or type(found).__name__
