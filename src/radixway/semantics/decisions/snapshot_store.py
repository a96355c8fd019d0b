"""The current snapshot, and how it is replaced while requests go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from radixway.core.config import ConfigError
from radixway.core.config.semantic import SemanticConfig, merge_semantic_file
from radixway.core.config.yaml_file import read_text
from radixway.semantics.decisions.section_validation import find_warnings
from radixway.semantics.decisions.snapshot import Encode, SemanticSnapshot, compile_snapshot

if TYPE_CHECKING:
    from radixway.semantics.signals.domain import DomainClassifier
    from radixway.semantics.tools import ToolProfileCache

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The result of a reload."""

    ok: bool
    said: str
    """Why not, or what is new."""


class SnapshotStore:
    """Holds one snapshot; a reload replaces it atomically, or reports why it cannot."""

    def __init__(
        self,
        section: SemanticConfig,
        encode: Encode | None,
        load_head: Callable[[], Awaitable[DomainClassifier | None]],
        profiles: ToolProfileCache | None = None,
    ) -> None:
        self._section = section
        self._encode = encode
        self._load_head = load_head
        self._head: DomainClassifier | None = None
        self._profiles = profiles
        self._warned: set[str] = set()
        """Keys that were warned of in the log."""
        self._current: SemanticSnapshot | None = None
        self.text: str | None = None
        """Text of the file that `current` was compiled from; None without a file."""
        self._lock = asyncio.Lock()
        self.files_changed = asyncio.Event()
        """Set when `files` change; the watcher clears it."""
        self._loaded_at = 0.0
        self.error: str | None = None
        """Why the last reload was refused, if it was."""

    @property
    def current(self) -> SemanticSnapshot:
        """Return the present snapshot; a request keeps the one that it began with."""
        assert self._current is not None, "start() comes first"
        return self._current

    @property
    def file(self) -> Path | None:
        """Return the file of rules that may change while the gateway runs."""
        return self._section.config

    @property
    def files(self) -> frozenset[Path]:
        """Return the files to watch."""
        tools = (self._section if self._current is None else self._current.section).tools
        database = tools.tools_db_path if tools is not None and tools.enabled else None
        return frozenset(
            Path(file).absolute() for file in (self._section.config, database) if file is not None
        )

    async def load_initial(self) -> None:
        """Compile the first snapshot. Raises ConfigError."""
        self._head = await self._load_head()
        await self._compile_current()

    async def reload_config(self) -> ReloadResult:
        """Read the configuration again. What cannot be used leaves everything as it was."""
        async with self._lock:
            if not self.files:
                return ReloadResult(
                    False,
                    "the section stands in the gateway's own configuration, which is read at its "
                    "start; only what a file under semantic.config says, or a database of tools, can change "
                    "while it runs",
                )
            try:
                await self._compile_current()
            except ConfigError as error:
                self.error = str(error)
                log.error("semantic: keeping the last good configuration: %s", error)
                return ReloadResult(False, str(error))
            except Exception as error:  # whatever a file made go wrong, the next edit must be read
                self.error = f"internal error ({type(error).__name__})"
                log.exception("semantic: keeping the last good configuration")
                return ReloadResult(False, self.error)
            log.info("semantic: configuration %s is active", self.describe()["checksum"])
            return ReloadResult(True, f"configuration {self.describe()['checksum']} is in force")

    def replace_current(self, change: Callable[[SemanticSnapshot], SemanticSnapshot]) -> None:
        """Put a changed snapshot in the place of the current one, until the configuration is read again."""
        self._current = change(self.current)

    async def compile_text(self, text: str | None) -> SemanticSnapshot:
        """Compile `text` as if it were the file, without applying it. Raises ConfigError."""
        merged = await asyncio.to_thread(merge_semantic_file, self._section, text)
        return await compile_snapshot(merged, self._encode, self._head, self._profiles)

    async def _compile_current(self) -> None:
        text = None if self.file is None else await asyncio.to_thread(read_text, self.file)
        snapshot = await self.compile_text(text)
        for name, warning in find_warnings(snapshot.section):
            if name not in self._warned:
                self._warned.add(name)
                log.warning("semantic: %s", warning)
        watched, self._current, self.text = self.files, snapshot, text
        if self.files != watched:
            self.files_changed.set()
        self._loaded_at, self.error = time(), None

    def describe(self) -> dict[str, Any]:
        """Return the active configuration, since when, and the error of the last reload."""
        section, tools = self.current.section, self.current.tools
        digest = sha256(section.model_dump_json().encode()).hexdigest()[:12]
        entry = {"checksum": digest, "loaded_at": self._loaded_at, "error": self.error}
        return entry if tools is None else entry | {"tools": len(tools)}


async def watch_files(snapshots: SnapshotStore) -> None:
    """Reload whenever one of its files changes; runs until it is cancelled."""
    from watchfiles import awatch

    while True:
        snapshots.files_changed.clear()
        # Folders are watched: editors and Kubernetes replace a file rather than write into it.
        folders = {file.parent for file in snapshots.files if file.parent.is_dir()}
        names = {file.name for file in snapshots.files}
        if not folders:
            await snapshots.files_changed.wait()
            continue
        changed = awatch(*folders, recursive=False, debounce=200, stop_event=snapshots.files_changed)
        async for changes in changed:
            if any(Path(path).name in names or Path(path).name.startswith("..data") for _, path in changes):
                await snapshots.reload_config()
