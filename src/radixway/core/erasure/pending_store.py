"""Erasures that are not done everywhere yet, on disk: they outlive the process that promised them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from radixway.core.component import Subject


class PendingErasure(msgspec.Struct):
    """One erasure, and the targets that are still to be asked."""

    id: str
    subject: Subject
    rooms: list[str]


_decoder = msgspec.json.Decoder(PendingErasure)


class PendingErasureStore:
    """A directory with a file for each, so that gateways that share it do not overwrite each other's.

    The files name whom to forget: they are readable for their owner alone, and gone when that is done.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load_pending(self) -> list[PendingErasure]:
        """All that is pending. Raises OSError, ValueError for a file that is none of ours."""
        found = []
        for path in sorted(self.directory.glob("*.json")):
            try:
                found.append(_decoder.decode(path.read_bytes()))
            except FileNotFoundError:  # another gateway is done with it
                continue
            except msgspec.DecodeError as error:
                raise ValueError(f"{path} is no erasure: {error}") from None
        return found

    def save_pending(self, pending: PendingErasure) -> None:
        """Write `pending` as it is now. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path_of(pending)
        fresh = path.with_suffix(".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(pending))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def delete_pending(self, pending: PendingErasure) -> None:
        """Delete the file of `pending`, which is done. Raises OSError."""
        self._path_of(pending).unlink(missing_ok=True)

    def _path_of(self, pending: PendingErasure) -> Path:
        return self.directory / f"{pending.id}.json"
