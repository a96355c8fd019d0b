"""Topics through files, for processes that share a database in a file.

Each process appends a line for each topic to a file of its own, in a folder beside the database that the
others watch. As long as there is one file alone nothing is written.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from watchfiles import awatch

from radixway.chat.notifications import ALL_TOPICS

_MAX_FILE_BYTES = 1 << 16
"""A longer file is truncated."""
_YOUNG_S = 10.0
_PAUSE_MS = 5
"""Changes within this time are reported together."""


class FileTopicTransport:
    """Topics through one append-only file for each process."""

    errors: tuple[type[Exception], ...] = (OSError, RuntimeError)  # RuntimeError: of the file watch

    def __init__(self, folder: Path, process: str) -> None:
        """`process`: a name of this one alone."""
        self._folder = folder
        self._path = folder / process
        self._file: int | None = None
        self._read: dict[Path, int] = {}
        """Bytes of the others' files that were read."""
        self._closing = asyncio.Event()

    async def publish_topics(self, topics: Collection[str]) -> None:
        """Send `topics` to every other process."""
        file = self._open_own_file()
        self._find_peers()
        if self._read:
            _append_topics(file, topics)

    async def receive_topics(self, on_topic: Callable[[str], None], ready: Callable[[], None]) -> None:
        """Call `ready` once connected, then `on_topic` for each topic, until the connection breaks."""
        file = self._open_own_file()
        self._remove_stale_files()
        watching = awatch(
            self._folder,
            watch_filter=lambda _, path: path != str(self._path),
            step=_PAUSE_MS,
            debounce=10 * _PAUSE_MS,
            stop_event=self._closing,
            recursive=False,
        )
        change = asyncio.ensure_future(anext(watching, None))
        try:
            await asyncio.sleep(0)  # from here on it watches
            ready()
            while await change is not None:
                if self._find_peers():
                    _append_topics(file, [ALL_TOPICS])  # they may have missed earlier topics
                for path in tuple(self._read):
                    for topic in self._read_new_lines(path):
                        on_topic(topic)
                change = asyncio.ensure_future(anext(watching, None))
        finally:
            change.cancel()
            await asyncio.gather(change, return_exceptions=True)

    async def aclose(self) -> None:
        """Close the connection; nothing is sent or received any more."""
        self._closing.set()
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def _open_own_file(self) -> int:
        """Create the file with its first use; its lock says that the process lives."""
        if self._file is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._file

    def _find_peers(self) -> bool:
        """Note the files of new processes. Returns whether there are any."""
        new_paths = [path for path in self._folder.iterdir() if path != self._path and path not in self._read]
        for path in new_paths:
            self._read[path] = 0
        return bool(new_paths)

    def _read_new_lines(self, path: Path) -> list[str]:
        try:
            with path.open("rb") as file:
                begin = self._read[path] if os.fstat(file.fileno()).st_size >= self._read[path] else 0
                file.seek(begin)
                added = file.read()
        except FileNotFoundError:
            del self._read[path]
            return []
        complete = added[: added.rfind(b"\n") + 1]
        self._read[path] = begin + len(complete)
        return complete.decode().splitlines()

    def _remove_stale_files(self) -> None:
        """Remove files that no process has locked, except those that may be in the making."""
        for path in self._folder.iterdir():
            if path == self._path:
                continue
            with suppress(OSError), path.open("rb") as file:
                if time.time() - os.fstat(file.fileno()).st_mtime > _YOUNG_S:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def _append_topics(file: int, topics: Collection[str]) -> None:
    if os.fstat(file).st_size > _MAX_FILE_BYTES:
        os.ftruncate(file, 0)
        topics = [ALL_TOPICS]
    os.write(file, "".join(f"{topic}\n" for topic in topics).encode())
