"""Classes named by dotted paths, ours also by the names that the Slime router's users know them by."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction, signature

from radixway.config import ConfigError

_RADIX_TREE = "RadixTreeMiddleware"


def find_class(path: str) -> type:
    """The middleware class at `package.module.Class`.

    Slime's own paths of its RadixTreeMiddleware name ours; slime need not be installed.

    Raises:
        ConfigError: the path names nothing, or nothing that could be a middleware.
    """
    module_name, _, name = _alias(path).rpartition(".")
    try:
        found = getattr(import_module(module_name), name)
    except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as error:
        raise ConfigError(f"pipeline.middlewares: {path!r} cannot be loaded: {error}") from None
    if not isinstance(found, type) or not isfunction(found.__call__):
        raise ConfigError(f"pipeline.middlewares: {path!r} is no middleware: a class with its own __call__")
    return found


def wraps_apps(middleware: type) -> bool:
    """Whether it is built around an ASGI application, as Starlette's are, and not from `Services`."""
    if isfunction(getattr(middleware, "dispatch", None)):
        return True
    try:
        return "app" in signature(middleware).parameters
    except ValueError:  # some built in C have no signature to read
        return False


def _alias(path: str) -> str:
    package, _, rest = path.partition(".")
    ours = package == "slime" and rest.rpartition(".")[2] == _RADIX_TREE
    return f"radixway.trajectories.{_RADIX_TREE}" if ours else path
