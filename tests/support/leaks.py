"""Secrets to plant, and a search through everything that a process wrote for any spelling of them."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_SHORTEST = 6


@dataclass(frozen=True)
class Secret:
    """Something private, and what a trace of it might look like."""

    name: str
    text: str

    def spellings(self) -> Iterator[bytes]:
        """The text itself, and as JSON, URLs, Python and hexadecimal would write it."""
        raw = self.text.encode()
        yield raw
        yield json.dumps(self.text)[1:-1].encode()
        yield quote(self.text).encode()
        yield repr(self.text)[1:-1].encode()
        yield ascii(self.text)[1:-1].encode()
        yield repr(raw)[2:-1].encode()
        yield raw.hex().encode()
        yield raw.hex(" ").encode()
        yield self.text.encode("utf-16-le")
        yield "".join(letter for letter in self.text if letter.isalnum()).encode()
        for shift in range(3):  # wherever in a longer text it stands
            inner = base64.b64encode(b"\0" * shift + raw)
            yield inner[4 if shift else 0 : -4]


def traces(written: Mapping[str, bytes], secrets: list[Secret]) -> list[str]:
    """`place: secret` for each secret found in what was written, compressed parts included."""
    found = []
    for place, raw in written.items():
        for content in (raw, *_unpacked(raw)):
            plain, squeezed = content.lower(), _squeezed(content.lower())
            for secret in secrets:
                wanted = {each.lower() for each in secret.spellings() if len(each) >= _SHORTEST}
                if any(each in plain or _squeezed(each) in squeezed for each in wanted):
                    found.append(f"{place}: {secret.name}")
    return sorted(set(found))


def files_below(directory: Path) -> dict[str, bytes]:
    """Everything that lies there, names included."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    contents = {str(path.relative_to(directory)): path.read_bytes() for path in files}
    return contents | {"names of files": "\n".join(contents).encode()}


def _squeezed(raw: bytes) -> bytes:
    """Without white space: terminals break lines where they end."""
    return b"".join(raw.split())


def _unpacked(raw: bytes) -> Iterator[bytes]:
    for unpack in (gzip.decompress, zlib.decompress):
        try:
            yield unpack(raw)
        except (OSError, EOFError, zlib.error):
            continue
