"""The gateway inside of a Python process: no port, no HTTP, and the same pipeline.

`Radixway` opens it, for `async with` or `with`; its calls go to the application that `radixway serve` serves.
Importing it costs next to nothing: the gateway is imported when it opens, its configuration when it is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radixway.gateway.embedded.async_client import AsyncRadixway, Stream
    from radixway.gateway.embedded.messages import Answer, RadixwayError
    from radixway.gateway.embedded.radixway import Radixway
    from radixway.gateway.embedded.sync_client import SyncRadixway, SyncStream

__all__ = [
    "Answer",
    "AsyncRadixway",
    "Radixway",
    "RadixwayError",
    "Stream",
    "SyncRadixway",
    "SyncStream",
]

_MODULES = {
    "messages": ("Answer", "RadixwayError"),
    "async_client": ("AsyncRadixway", "Stream"),
    "radixway": ("Radixway",),
    "sync_client": ("SyncRadixway", "SyncStream"),
}


def __getattr__(name: str) -> Any:
    """Import `name` with its first use."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
