"""The gateway inside of a Python process: no port, no HTTP, and the same pipeline.

`Radixway` opens it, for `async with` or `with`; its calls go to the application that `radixway serve` serves.
Importing it costs next to nothing: the gateway is imported when it opens, its configuration when it is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radixway.gateway.embedded.answer import Answer, RadixwayError
    from radixway.gateway.embedded.async_client import AsyncRadixway, Stream
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

_WHERE = {
    "Answer": "answer",
    "AsyncRadixway": "async_client",
    "Radixway": "radixway",
    "RadixwayError": "answer",
    "Stream": "async_client",
    "SyncRadixway": "sync_client",
    "SyncStream": "sync_client",
}


def __getattr__(name: str) -> Any:
    """Imported with the first use of the name."""
    if name in _WHERE:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
