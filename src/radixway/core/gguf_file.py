"""The header of a GGUF file: its metadata, and where each tensor is.

    "GGUF" version | counts | key-value pairs | tensor descriptions | padding | data of all tensors
                                                                              └ `data_offset`

Read with `struct` alone: the `gguf` package's reader makes several numpy arrays of each of a vocabulary's
strings (1.8 s of CPU for 98,000 of them, this one 0.05 s) and loops as often as a broken file says.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""GGUF's value types that have a fixed size, and what `struct` calls them."""
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 4
_MIN_PAIR_BYTES = 13
"""Bytes of the shortest key-value pair: the length of an empty key, a type and one byte."""
_MIN_TENSOR_BYTES = 24


class GgufError(Exception):
    """A file that is no GGUF, is cut off, or is of a kind that cannot be read; the message names it."""


@dataclass(slots=True, frozen=True)
class GgufTensor:
    """One tensor's description."""

    shape: tuple[int, ...]
    """Slowest dimension first, as in torch; the file has them the other way round."""
    type: int
    """Number of its GGML type, such as 0 for F32."""
    offset: int
    """Where its data begins, in bytes from the start of the file."""


@dataclass(slots=True, frozen=True)
class GgufFile:
    """What the header of the GGUF file at `path` says."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]
    num_bytes: int
    """Size of the file."""

    @classmethod
    def read(cls, path: Path) -> "GgufFile":
        """Read the header of `path`. Raises GgufError, OSError."""
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise GgufError(f"{path} is not a GGUF file")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                try:
                    return _HeaderReader(path, data).read_header()
                except struct.error:
                    raise GgufError(f"{path} is cut off, or not a GGUF file") from None
                except UnicodeDecodeError as error:
                    raise GgufError(f"{path} holds a text that is not UTF-8: {error.reason}") from None


class _HeaderReader:
    """Reads one header from front to back. Refuses counts that the rest of the file cannot hold."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._at = 4

    def read_header(self) -> GgufFile:
        (version,) = self._unpack("I")
        if version not in _VERSIONS:
            if version & 0xFFFF == 0:
                raise GgufError(f"{self._path} is a big-endian GGUF file; little-endian ones can be read")
            raise GgufError(f"{self._path} is a GGUF file of version {version}; 2 and 3 can be read")
        num_tensors, num_pairs = self._unpack("QQ")
        self._check_count(num_pairs, _MIN_PAIR_BYTES)
        metadata: dict[str, Any] = {}
        for _ in range(num_pairs):
            key = self._read_string()
            (kind,) = self._unpack("I")
            metadata[key] = self._read_value(kind)
        self._check_count(num_tensors, _MIN_TENSOR_BYTES)
        described = [self._read_tensor() for _ in range(num_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise GgufError(f"{self._path}: general.alignment is {alignment!r}")
        data_offset = -(-self._at // alignment) * alignment
        tensors = {
            name: GgufTensor(shape, kind, data_offset + offset) for name, shape, kind, offset in described
        }
        return GgufFile(self._path, metadata, tensors, len(self._data))

    def _read_tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._read_string()
        (num_dimensions,) = self._unpack("I")
        if num_dimensions > _MAX_DIMENSIONS:
            raise GgufError(f"{self._path}: {name} has {num_dimensions} dimensions")
        shape = self._unpack(f"{num_dimensions}Q")
        kind, offset = self._unpack("IQ")
        return name, shape[::-1], kind, offset

    def _read_value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._read_string()
        if kind == _ARRAY:
            item_kind, count = self._unpack("IQ")
            if item_kind == _STRING:
                self._check_count(count, 8)
                return [self._read_string() for _ in range(count)]
            code = self._scalar_code(item_kind)
            self._check_count(count, struct.calcsize(code))
            return list(self._unpack(f"{count}{code}"))
        (value,) = self._unpack(self._scalar_code(kind))
        return value

    def _scalar_code(self, kind: int) -> str:
        try:
            return _SCALARS[kind]
        except KeyError:
            raise GgufError(f"{self._path} holds a value of type {kind}, which cannot be read") from None

    def _read_string(self) -> str:
        (length,) = self._unpack("Q")
        self._check_count(length, 1)
        start, self._at = self._at, self._at + length
        return self._data[start : self._at].decode()

    def _check_count(self, count: int, least_bytes: int) -> None:
        if count * least_bytes > len(self._data) - self._at:
            raise GgufError(f"{self._path} is cut off, or not a GGUF file")

    def _unpack(self, codes: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{codes}", self._data, self._at)
        self._at += struct.calcsize(f"<{codes}")
        return values
