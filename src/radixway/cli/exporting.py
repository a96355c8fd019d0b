"""Writes what is known of a user to a file that nobody else reads, or to standard output."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from radixway.chat.database import Database


async def write_export(database: Database, user_id: str, file: Path) -> int:
    """`-` is standard output. Returns how many bytes there were. Raises NotFound, and then writes nothing."""
    from radixway.chat.privacy import Export

    lines = await Export(database, time.time).of(user_id)
    written = 0
    with _opened(file) as out:
        async for part in lines:
            written += out.write(part)
        out.flush()
    return written


def _opened(file: Path) -> BinaryIO:
    if str(file) == "-":
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "wb")
