"""Radixway: the gateway for people who run their own language models.

`docs/` explains it, `app.py` shows how the rooms fit together, `cli/` is the way in, and `Radixway` the
gateway within a Python process.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radixway.embedded import AsyncRadixway, Radixway, RadixwayError, SyncRadixway

__version__ = "0.1.0"
__all__ = ["AsyncRadixway", "Radixway", "RadixwayError", "SyncRadixway", "__version__"]


def __getattr__(name: str) -> Any:
    """Names of the embedded gateway, imported with the first that is used: the package itself stays light."""
    if name in __all__:
        from radixway import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
