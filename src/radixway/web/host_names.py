"""Under which name a server was asked, as the `Host` header has it.

A page of another site's can have its own name led to this machine once it is loaded (DNS rebinding): what it
then asks comes from the loopback, and only the name tells.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit


def name_in(host: str) -> str:
    """The name or address in a `Host` header, without the port; empty where there is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:  # a bracket that does not close
        return ""


def is_local(host: str) -> bool:
    """Whether it names this machine: `localhost`, or an address, which no other site has."""
    name = name_in(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def may_be_foreign(host: str) -> bool:
    """Whether another site could have that name: no site's is without a dot, or this machine's own."""
    name = name_in(host)
    return "." in name and not is_local(host) and name != socket.gethostname().lower()
