"""Checks of a request's head that its parser leaves to the server: the host and the transfer coding."""

import re
from collections.abc import Iterable

from radixway.core.http.errors import HttpError

_NAME = rb"[0-9A-Za-z._~!$&'()*+,;=-]*"
_HOST = re.compile(
    rb"(?:\[[0-9A-Za-z:.%_~-]+\]|" + _NAME + rb"(?:%[0-9A-Fa-f]{2}" + _NAME + rb")*)(?::[0-9]*)?"
)
"""RFC 3986, sections 3.2.2 and 3.2.3: a name, which may be empty, or an address, and perhaps a port."""


def find_head_error(headers: Iterable[tuple[bytes, bytes]], version: str) -> HttpError | None:
    """Return why a request of HTTP `version` with these `headers` cannot be served, names in lower case.

    RFC 9112, section 3.2: one valid `Host`, which may be missing before HTTP/1.1. Section 6.1: `chunked` is
    the one transfer coding known here; the parser takes any before it, and other servers read another body.
    """
    hosts = 0
    codings: list[bytes] | None = None
    for name, value in headers:
        if name == b"host":
            hosts += 1
            if _HOST.fullmatch(value.strip(b" \t")) is None:
                return _invalid_head("the request's host is not valid")
        elif name == b"transfer-encoding":
            found = (coding.strip(b" \t").lower() for coding in value.split(b","))
            codings = [*(codings or ()), *(coding for coding in found if coding)]
    if hosts != 1 and (hosts or version not in ("1.0", "0.9")):
        return _invalid_head("the request names more than one host" if hosts else "the request names no host")
    if codings is None or codings == [b"chunked"]:
        return None
    return _invalid_head("the request's body has another transfer coding than chunked")


def _invalid_head(message: str) -> HttpError:
    return HttpError(message, status=400, code="invalid_request")
