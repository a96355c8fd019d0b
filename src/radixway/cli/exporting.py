"""Users in files: all that is known of them in one of theirs, and nothing of who was erased in ours."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from radixway.chat.database import ChatDatabase


async def write_export(database: ChatDatabase, user_id: str, file: Path) -> int:
    """`-` is standard output. Returns how many bytes there were. Raises NotFound, and then writes nothing."""
    from radixway.chat.privacy import AccountExport

    lines = await AccountExport(database, time.time).export_user(user_id)
    written = 0
    with _open_output(file) as out:
        async for part in lines:
            written += out.write(part)
        out.flush()
    return written


async def scrub_files(database: ChatDatabase) -> None:
    """Raises ValueError: somebody reads or writes there."""
    from radixway.chat.privacy import FileScrubber
    from radixway.component import CannotErase

    try:
        await FileScrubber(database, largest_bytes=sys.maxsize).force_scrub()
    except CannotErase as error:
        raise ValueError(str(error)) from error


def _open_output(file: Path) -> BinaryIO:
    if str(file) == "-":
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "wb")
