"""Radixway: the gateway for people who run their own language models.

`docs/architecture.md` maps its packages, `cli/` is the way in, `gateway/app.py` lists the components in
order, and `Radixway` is the gateway within a Python process.
"""

from typing import TYPE_CHECKING, Any

from radixway._version import __version__
from radixway.core.renamed_modules import install_renamed_modules

if TYPE_CHECKING:
    from radixway.gateway.embedded import AsyncRadixway, Radixway, RadixwayError, SyncRadixway

__all__ = ["AsyncRadixway", "Radixway", "RadixwayError", "SyncRadixway", "__version__"]

install_renamed_modules()


def __getattr__(name: str) -> Any:
    """Names of the embedded gateway, imported with the first that is used: the package itself stays light."""
    if name in __all__:
        from radixway.gateway import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
