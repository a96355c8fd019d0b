"""Erases people's data on request in every component that stores any; retries those that are unreachable.

State: a file for each erasure that is not complete, written before the first target is asked and removed
after the last is done.
"""

import asyncio
import hashlib
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec

from radixway.core.component import CannotErase, Component, Subject
from radixway.core.config import ConfigError
from radixway.core.net.task_cancellation import cancel_tasks

log = logging.getLogger(__name__)


class PendingErasure(msgspec.Struct):
    """An erasure, and the names of the targets that have not completed it."""

    id: str
    subject: Subject
    targets: list[str] = msgspec.field(name="rooms")


_decoder = msgspec.json.Decoder(PendingErasure)


class PendingErasureStore:
    """A directory with a file for each erasure, so that gateways that share it do not overwrite each other.

    The files name people, so only their owner can read them, and they are deleted with the erasure.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load_pending(self) -> list[PendingErasure]:
        """Load all pending erasures. Raises OSError, ValueError for another file."""
        found = []
        for path in sorted(self.directory.glob("*.json")):
            try:
                found.append(_decoder.decode(path.read_bytes()))
            except FileNotFoundError:  # another gateway has completed it
                continue
            except msgspec.DecodeError as error:
                raise ValueError(f"{path} is not an erasure: {error}") from None
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


_TARGET_TIMEOUT_S = 60.0
"""Seconds after which a target counts as unreachable."""


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """The outcome of an erasure at one target."""

    status: Literal["erased", "pending", "cannot_tell"]
    """`pending`: unreachable, retried until done. `cannot_tell`: it stores none of the subject's fields."""
    entries: int = 0
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"status": self.status, "entries": self.entries} | ({"why": self.why} if self.why else {})


@dataclass(frozen=True, slots=True)
class ErasureOutcome:
    """The outcome of an erasure at all targets."""

    id: str
    receipt: str
    """Proof that the digest in the audit log is this subject's; it is not stored."""
    targets: dict[str, TargetOutcome]

    @property
    def is_complete(self) -> bool:
        """True if every target that can tell the subject from others has erased it."""
        return all(target.status != "pending" for target in self.targets.values())

    def to_dict(self) -> dict[str, Any]:
        targets = {name: target.to_dict() for name, target in self.targets.items()}
        return {"erasure": self.id, "receipt": self.receipt, "complete": self.is_complete, "rooms": targets}


Note = Callable[..., None]
"""Takes a kind and fields for the audit log."""


class ErasureService(Component):
    """Erases a subject in all components that store personal data."""

    name = "erasure"

    def __init__(
        self,
        components: Sequence[Component],
        store: PendingErasureStore,
        *,
        workers: Component | None = None,
        note: Note | None = None,
        mark_requests: Callable[[Subject], None] = lambda subject: None,
        retry_s: float = 30.0,
    ) -> None:
        """`components`: in the order of their start; may be filled in until `start`. `workers`: asked if the
        subject includes them. `note`: writes to the audit log. `mark_requests`: has the subject's requests
        that are under way store nothing more. `retry_s`: seconds between two attempts.
        """
        self._components = components
        self._workers = workers
        self._store = store
        self._note = note or (lambda kind, **fields: None)
        self._mark_requests = mark_requests
        self._retry_s = retry_s
        self._pending: dict[str, PendingErasure] = {}
        self._retrying: asyncio.Task[None]
        self._in_progress: set[str] = set()

    async def start(self) -> None:
        """Resume the erasures of an earlier process. Raises ConfigError for an invalid file."""
        try:
            found = await asyncio.to_thread(self._store.load_pending)
        except (OSError, ValueError) as error:
            raise ConfigError(f"pending erasures: {error}") from error
        self._pending = {erasure.id: erasure for erasure in found}
        self._retrying = asyncio.create_task(self._retry_forever())

    async def stop(self) -> None:
        """Stop retrying; pending erasures stay on disk."""
        await cancel_tasks([self._retrying])

    async def erase_everywhere(self, subject: Subject) -> ErasureOutcome:
        """Erase `subject` in all reachable targets; the others are retried until done."""
        erasure, receipt = uuid4().hex, secrets.token_hex(16)
        targets = self._find_targets(with_workers=subject.workers)
        names = [target.name for target in targets]
        self._pending[erasure] = pending = PendingErasure(erasure, subject, names)
        await self._save_pending(pending)  # first, so that a restart after a crash can resume it
        self._mark_requests(subject)
        outcomes = await self._ask_targets(pending)
        await self._save_pending(pending)
        self._write_audit_entry(erasure, subject, outcomes, subject_digest=digest_subject(subject, receipt))
        return ErasureOutcome(erasure, receipt, outcomes)

    def describe(self) -> dict[str, Any]:
        """Return the number of pending erasures and their targets, for `/health`."""
        waiting = sorted({name for erasure in self._pending.values() for name in erasure.targets})
        return {"pending": len(self._pending), "rooms": waiting}

    def _find_targets(self, with_workers: bool = True) -> list[Component]:
        """Return the components to erase in, last started first: they may know whose data others have."""
        targets = [component for component in reversed(self._components) if component.erasable_by]
        return [*targets, self._workers] if with_workers and self._workers is not None else targets

    async def _ask_targets(self, pending: PendingErasure) -> dict[str, TargetOutcome]:
        """Erase in the pending targets; remove those that are done."""
        outcomes, known = {}, {target.name: target for target in self._find_targets()}
        self._in_progress.add(pending.id)
        try:
            for name in list(pending.targets):
                target = known.get(name)
                outcomes[name] = _GONE if target is None else await _erase_target(target, pending.subject)
                if outcomes[name].status != "pending":
                    pending.targets.remove(name)
        finally:
            self._in_progress.discard(pending.id)
        return outcomes

    async def _save_pending(self, pending: PendingErasure) -> None:
        """Save pending erasures; delete the file when there are none."""
        snapshot = PendingErasure(pending.id, pending.subject, list(pending.targets))
        write = self._store.save_pending if snapshot.targets else self._store.delete_pending
        if not snapshot.targets:
            self._pending.pop(pending.id, None)
        try:
            await asyncio.to_thread(write, snapshot)
        except OSError as error:
            log.error("a pending erasure could not be saved in %s: %s", self._store.directory, error)

    async def _retry_forever(self) -> None:
        """Retry pending erasures forever, beginning at once with those of an earlier process."""
        while True:
            waiting = [erasure for erasure in self._pending.values() if erasure.id not in self._in_progress]
            for pending in waiting:
                before = len(pending.targets)
                outcomes = await self._ask_targets(pending)
                if len(pending.targets) < before:
                    await self._save_pending(pending)
                    self._write_audit_entry(pending.id, pending.subject, outcomes)
            await asyncio.sleep(self._retry_s)

    def _write_audit_entry(
        self,
        erasure: str,
        subject: Subject,
        outcomes: dict[str, TargetOutcome],
        subject_digest: str | None = None,
    ) -> None:
        summary = {name: {"status": each.status, "entries": each.entries} for name, each in outcomes.items()}
        fields: dict[str, Any] = {"erasure": erasure, "tenant": subject.tenant, "rooms": summary}
        if subject_digest is not None:
            fields |= {"subject": subject_digest, "by": sorted(subject.given())}
        self._note("erasure", **fields)


_GONE = TargetOutcome("erased", why="this gateway no longer has this target")


def digest_subject(subject: Subject, receipt: str) -> str:
    """Return the audit log's name for a subject: SHA-256 over the receipt and its fields as sorted JSON."""
    fields = msgspec.json.encode(subject.given(), order="sorted")
    return hashlib.sha256(receipt.encode() + b"\n" + fields).hexdigest()


async def _erase_target(target: Component, subject: Subject) -> TargetOutcome:
    unknown = set(subject.given()) - target.erasable_by
    if unknown:
        return TargetOutcome("cannot_tell", why=f"it does not know {' or '.join(sorted(unknown))}")
    try:
        async with asyncio.timeout(_TARGET_TIMEOUT_S):
            return TargetOutcome("erased", await target.erase(subject))
    except CannotErase as error:
        return TargetOutcome("pending", why=str(error))
    except TimeoutError:
        return TargetOutcome("pending", why=f"no answer within {_TARGET_TIMEOUT_S:g} s")
    except Exception:  # a defect in one target must not stop the others
        log.exception("erasure in %s failed unexpectedly", target.name)
        return TargetOutcome("pending", why="internal error")
