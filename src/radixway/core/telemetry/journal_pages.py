"""Journals as bytes, where they hold objects that the garbage collector would look at again and again.

A page is a pickle that never leaves the process. What a request shares with others is not copied into it but
referred to: workers, rules, configuration, functions.
"""

import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum, auto
from io import BytesIO
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any

import msgspec
from pydantic import BaseModel


class SharedObject:
    """A base of what outlives requests: a page refers to such an object, and does not copy it."""

    __slots__ = ()


_SHARED = (
    *(SharedObject, BaseModel, re.Pattern, MappingProxyType),
    *(FunctionType, BuiltinFunctionType, MethodType),
)
_KNOWN_PACKAGES = ("array", "builtins", "collections", "datetime", "radixway")
"""Packages whose classes are known to survive packing."""
_Values = Callable[[Any], tuple[Any, ...]]


class _Treatment(Enum):
    """How an object is packed whose values are not read one by one."""

    REFER = auto()
    """A page refers to it."""
    PICKLE = auto()
    """pickle knows how to take it apart."""
    KEEP_OBJECT = auto()
    """Keep the object: packing might fail."""


_known: dict[type, _Values | _Treatment] = {}
"""By type; see `_treatment_of`."""


class JournalPage:
    """An object packed into bytes; `unpack` makes an equal one of them, as often as it is called."""

    __slots__ = ("_packed", "_shared")

    def __init__(self, content: Any) -> None:
        """Pack `content`. Raises PackingError if something in it would not be the same afterwards."""
        file = BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(content)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise PackingError(str(error)) from None
        self._packed, self._shared = file.getvalue(), tuple(pickler.shared)

    def unpack(self) -> Any:
        """The content. In any thread."""
        return _Unpickler(BytesIO(self._packed), self._shared).load()

    @property
    def size_bytes(self) -> int:
        """Return the packed bytes, without shared objects."""
        return len(self._packed)


class PackingError(Exception):
    """Something cannot be packed."""


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, 5)
        self.shared: list[Any] = []

    def reducer_override(self, thing: Any) -> Any:
        """Implement `pickle.Pickler`: called for whatever is not of a built-in type."""
        kind = type(thing)
        if isinstance(thing, type):
            return NotImplemented  # by its name
        if kind not in _known:
            _known[kind] = _treatment_of(kind)
        treatment = _known[kind]
        if not isinstance(treatment, _Treatment):
            return kind, treatment(thing)
        if treatment is _Treatment.REFER:
            self.shared.append(thing)
            return _SharedReference, (len(self.shared) - 1,)
        if treatment is _Treatment.KEEP_OBJECT:
            raise pickle.PicklingError(kind.__qualname__)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, shared: tuple[Any, ...]) -> None:
        super().__init__(file)
        self._shared = shared

    def find_class(self, module: str, name: str) -> Any:
        if name == _SharedReference.__name__ and module == __name__:
            return self._shared.__getitem__
        return super().find_class(module, name)


class _SharedReference:
    """Stands in a page for what it refers to, by number."""


def _treatment_of(kind: type) -> _Values | _Treatment:
    """What reads the values that make an object of this type again, or what becomes of it instead."""
    if issubclass(kind, _SHARED):
        return _Treatment.REFER
    if issubclass(kind, msgspec.Struct):
        return _reader_of(kind.__struct_fields__)
    own = vars(kind).get("__dataclass_params__")  # not its base's
    if not is_dataclass(kind) or own is None or not own.init or hasattr(kind, "__post_init__"):
        is_known = kind.__module__.partition(".")[0] in _KNOWN_PACKAGES
        return _Treatment.PICKLE if is_known else _Treatment.KEEP_OBJECT
    every = fields(kind)
    names = [field.name for field in every]
    if not names or any(not field.init or field.kw_only for field in every):
        return _Treatment.PICKLE
    return _reader_of(names)


def _reader_of(names: Sequence[str]) -> _Values:
    read = attrgetter(*names)  # a third cheaper than what pickle does with slots by itself
    return read if len(names) > 1 else lambda thing: (read(thing),)
