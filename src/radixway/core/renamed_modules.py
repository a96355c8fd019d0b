"""Documented import paths that have moved: they keep working, and warn of the new one.

Ray, `serve run` and `pipeline.middlewares` name classes by dotted paths that stand in files of users.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

RENAMED_MODULES = {
    "radixway.embedded": "radixway.gateway.embedded",
    "radixway.pipeline": "radixway.core.pipeline",
    "radixway.pipeline.retry": "radixway.core.pipeline.retry",
    "radixway.radix": "radixway.core.radix",
    "radixway.scale": "radixway.cluster",
    "radixway.scale.planner": "radixway.cluster.planner",
    "radixway.scale.ray_router": "radixway.cluster.ray_router",
    "radixway.scale.ray_serve": "radixway.gateway.ray_serve",
    "radixway.tokenizer": "radixway.core.tokenizer",
}
"""Old path to new, of what docs and examples have named."""


class RenamedModuleFinder(MetaPathFinder, Loader):
    """Finds a module under a path of `RENAMED_MODULES`; it is the very module of the new path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec where `fullname` is an old path, None for all others."""
        return ModuleSpec(fullname, self) if fullname in RENAMED_MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module that `spec` has become, with a DeprecationWarning that names it."""
        new = RENAMED_MODULES[spec.name]
        warnings.warn(f"{spec.name} is now {new}", DeprecationWarning, stacklevel=2)
        module = import_module(new)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back its own spec: it has been executed."""
        module.__spec__ = self._own


def install_renamed_modules() -> None:
    """Let old import paths be found from now on."""
    if not any(isinstance(finder, RenamedModuleFinder) for finder in sys.meta_path):
        sys.meta_path.append(RenamedModuleFinder())
