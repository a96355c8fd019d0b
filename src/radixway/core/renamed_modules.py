"""Import paths that documentation has named and that have moved: they keep working, with a warning.

Ray, `serve run` and `pipeline.middlewares` name classes by dotted paths that stand in files of users.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

RENAMED_MODULES = {
    "radixway.cluster.ray_serve.autoscaling_policy": "radixway.cluster.planner.ray_autoscaler",
    "radixway.embedded": "radixway.gateway.embedded",
    "radixway.encoders": "radixway.semantics.encoders",
    "radixway.pipeline": "radixway.core.pipeline",
    "radixway.radix": "radixway.core.radix",
    "radixway.scale": "radixway.cluster",
    "radixway.scale.ray_serve": "radixway.gateway.ray_serve",
    "radixway.tokenizer": "radixway.core.tokenizer",
}
"""Old path to new, of modules and of what is within them; the longest old path decides."""


def find_renamed_module(name: str) -> str | None:
    """Return the present path of the module once called `name`; None where it has not moved."""
    head, tail = name, ""
    while head != "radixway" and head:
        if head in RENAMED_MODULES:
            return RENAMED_MODULES[head] + tail
        head, dot, last = head.rpartition(".")
        tail = f"{dot}{last}{tail}"
    return None


class RenamedModuleFinder(MetaPathFinder, Loader):
    """Finds modules under old paths. Each is the very module of its new path, never a second copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec where `fullname` is an old path, None for all others."""
        if not fullname.startswith("radixway."):
            return None
        new = find_renamed_module(fullname)
        return None if new is None else ModuleSpec(fullname, self, origin=new)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module that `spec` names by its new path, with a DeprecationWarning that says so."""
        assert spec.origin is not None
        warnings.warn(f"{spec.name} is now {spec.origin}", DeprecationWarning, stacklevel=2)
        module = import_module(spec.origin)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give `module`, which has been executed, its own spec back."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install_renamed_modules() -> None:
    """Let old import paths be found from now on. It goes first: it knows modules within moved packages."""
    if not any(isinstance(finder, RenamedModuleFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, RenamedModuleFinder())
