"""Erases people's data when they ask for it: in every component that stores any, now or once it is in reach.

State: erasures that are not done everywhere, a file each: on disk before the first target is asked, removed
when the last is done.
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
    """An erasure, and the targets that are still to be asked."""

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
        """Load all pending erasures. Raises OSError, ValueError for another file."""
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


_TARGET_TIMEOUT_S = 60.0
"""Seconds that a target may take before it counts as out of reach."""


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """The outcome of an erasure at one target."""

    status: Literal["erased", "pending", "cannot_tell"]
    """`pending`: out of reach, asked again until it is done. `cannot_tell`: it knows no such fields."""
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
    rooms: dict[str, TargetOutcome]

    @property
    def is_complete(self) -> bool:
        """True if every target that can tell the subject from others has erased it."""
        return all(target.status != "pending" for target in self.rooms.values())

    def to_dict(self) -> dict[str, Any]:
        rooms = {name: target.to_dict() for name, target in self.rooms.items()}
        return {"erasure": self.id, "receipt": self.receipt, "complete": self.is_complete, "rooms": rooms}


Note = Callable[..., None]
"""Takes a kind and fields for the audit log."""


class ErasureService(Component):
    """Asks all components that keep something of people to forget them."""

    name = "erasure"

    def __init__(
        self,
        components: Sequence[Component],
        kept: PendingErasureStore,
        *,
        workers: Component | None = None,
        note: Note | None = None,
        retry_s: float = 30.0,
    ) -> None:
        """`components`: in the order of their start; may be filled in until `start`. `workers`: asked where a
        subject says so. `note`: the audit log, where there is one. `retry_s`: how often they are asked again.
        """
        self._components = components
        self._workers = workers
        self._kept = kept
        self._note = note or (lambda kind, **fields: None)
        self._retry_s = retry_s
        self._pending: dict[str, PendingErasure] = {}
        self._retrying: asyncio.Task[None]
        self._asking: set[str] = set()

    async def start(self) -> None:
        """Go on with what an earlier process left undone. Raises ConfigError for a file that is none."""
        try:
            found = await asyncio.to_thread(self._kept.load_pending)
        except (OSError, ValueError) as error:
            raise ConfigError(f"erasures that wait: {error}") from error
        self._pending = {each.id: each for each in found}
        self._retrying = asyncio.create_task(self._retry_forever())

    async def stop(self) -> None:
        """Ask no more; what waits is on disk."""
        await cancel_tasks([self._retrying])

    async def erase_everywhere(self, subject: Subject) -> ErasureOutcome:
        """Erase `subject` wherever it can be erased now; the rest is asked again until it is done."""
        erasure, receipt = uuid4().hex, secrets.token_hex(16)
        names = [each.name for each in self._asked() if subject.workers or each is not self._workers]
        self._pending[erasure] = pending = PendingErasure(erasure, subject, names)
        await self._save_pending(pending)  # first: a crash in the middle leaves something to go on with
        rooms = await self._ask_targets(pending)
        await self._save_pending(pending)
        self._write_audit_entry(erasure, subject, rooms, subject_digest=digest_subject(subject, receipt))
        return ErasureOutcome(erasure, receipt, rooms)

    def describe(self) -> dict[str, Any]:
        """Describe, for `/health`, how many erasures wait, and for which targets."""
        waiting = sorted({name for each in self._pending.values() for name in each.rooms})
        return {"pending": len(self._pending), "rooms": waiting}

    def _asked(self) -> list[Component]:
        """Those that keep something of people, last started first: they may know whose data others have."""
        keeping = [each for each in reversed(self._components) if each.erasable_by]
        return keeping if self._workers is None else [*keeping, self._workers]

    async def _ask_targets(self, pending: PendingErasure) -> dict[str, TargetOutcome]:
        """Ask the pending targets; remove those that are done."""
        told, known = {}, {each.name: each for each in self._asked()}
        self._asking.add(pending.id)
        try:
            for name in list(pending.rooms):
                target = known.get(name)
                told[name] = _GONE if target is None else await _erase_target(target, pending.subject)
                if told[name].status != "pending":
                    pending.rooms.remove(name)
        finally:
            self._asking.discard(pending.id)
        return told

    async def _save_pending(self, pending: PendingErasure) -> None:
        """Save pending erasures; delete the file when there are none."""
        as_it_is = PendingErasure(pending.id, pending.subject, list(pending.rooms))
        work = self._kept.save_pending if as_it_is.rooms else self._kept.delete_pending
        if not as_it_is.rooms:
            self._pending.pop(pending.id, None)
        try:
            await asyncio.to_thread(work, as_it_is)
        except OSError as error:
            log.error("an erasure that waits cannot be kept in %s: %s", self._kept.directory, error)

    async def _retry_forever(self) -> None:
        """Ask again for ever, at once after a start for what an earlier process left."""
        while True:
            for pending in [each for each in self._pending.values() if each.id not in self._asking]:
                before = len(pending.rooms)
                told = await self._ask_targets(pending)
                if len(pending.rooms) < before:
                    await self._save_pending(pending)
                    self._write_audit_entry(pending.id, pending.subject, told)
            await asyncio.sleep(self._retry_s)

    def _write_audit_entry(
        self,
        erasure: str,
        subject: Subject,
        rooms: dict[str, TargetOutcome],
        subject_digest: str | None = None,
    ) -> None:
        said = {name: {"status": target.status, "entries": target.entries} for name, target in rooms.items()}
        fields: dict[str, Any] = {"erasure": erasure, "tenant": subject.tenant, "rooms": said}
        if subject_digest is not None:
            fields |= {"subject": subject_digest, "by": sorted(subject.given())}
        self._note("erasure", **fields)


_GONE = TargetOutcome("erased", why="this gateway has no such room any more")


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
    except Exception:  # one target's defect must not keep the others from erasing
        log.exception("erasure: %s met a defect", target.name)
        return TargetOutcome("pending", why="internal error")
