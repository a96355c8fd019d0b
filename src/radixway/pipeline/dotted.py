"""Classes named by dotted paths, ours also by the names that the Slime router's users know them by."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction, signature

from radixway.config import ConfigError

RADIX_TREE = "radixway.trajectories.RadixTreeMiddleware"
"""The middleware that records trajectories."""


def import_class(path: str) -> type:
    """The middleware class at `package.module.Class`.

    Slime's own paths of its RadixTreeMiddleware name ours; slime need not be installed.

    Raises:
        ConfigError: the path names nothing, or nothing that could be a middleware.
    """
    module_name, _, name = resolve_slime_path(path).rpartition(".")
    try:
        found = getattr(import_module(module_name), name)
    except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as error:
        raise ConfigError(f"pipeline.middlewares: {path!r} cannot be loaded: {error}") from None
    if not isinstance(found, type) or not isfunction(found.__call__):
        raise ConfigError(f"pipeline.middlewares: {path!r} is no middleware: a class with its own __call__")
    return found


def is_asgi_middleware(middleware: type) -> bool:
    """Whether it is built around an ASGI application, as Starlette's are, and not from `Services`."""
    if isfunction(getattr(middleware, "dispatch", None)):
        return True
    try:
        return "app" in signature(middleware).parameters
    except ValueError:  # some built in C have no signature to read
        return False


def resolve_slime_path(path: str) -> str:
    """Where a class is that users of Slime know by `path`; any other path is returned as it is."""
    package, _, rest = path.partition(".")
    slimes = package == "slime" and rest.rpartition(".")[2] == RADIX_TREE.rpartition(".")[2]
    return RADIX_TREE if slimes else path
