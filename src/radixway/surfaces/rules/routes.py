"""The paths under `/config/semantic/` by which rules are edited."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import yaml
from fastapi import APIRouter, Depends, Request, Response
from msgspec import Meta

from radixway.config import ConfigError, radixway_home
from radixway.surfaces.access import AdminAccess
from radixway.surfaces.rules.errors import (
    NotEditable,
    NotTaken,
    RulesChanged,
    RulesNotKnown,
    RulesRefused,
    SemanticOff,
    VersionNeeded,
)
from radixway.telemetry import JournalBook
from radixway.web import read_json

if TYPE_CHECKING:
    from radixway.semantic import SemanticRoom, Snapshot
    from radixway.semantic.rules_file import RulesFile
    from radixway.surfaces.rules.shapes import RulesShape

log = logging.getLogger(__name__)

_Text = Annotated[str, Meta(min_length=1, max_length=2**20)]
_Version = Annotated[str, Meta(min_length=1, max_length=64)]
_MOST_TOLD = 200
"""Requests that a trial tells of one by one."""


class _Rules(msgspec.Struct, forbid_unknown_fields=True):
    text: _Text


class _Trial(msgspec.Struct, forbid_unknown_fields=True):
    text: _Text
    latest: Annotated[int, Meta(ge=0, le=10_000)] = 1000
    texts: Annotated[list[Annotated[str, Meta(min_length=1, max_length=20_000)]], Meta(max_length=50)] = []


class _Back(msgspec.Struct, forbid_unknown_fields=True):
    version: _Version


_rules = msgspec.json.Decoder(_Rules)
_trial = msgspec.json.Decoder(_Trial)
_back = msgspec.json.Decoder(_Back)
T = TypeVar("T", bound=msgspec.Struct)

_SEEN: dict[str, Any] = {
    "parameters": [
        {
            "name": "if-match",
            "in": "header",
            "required": True,
            "schema": {"type": "string"},
            "description": "the version that was seen",
        }
    ]
}


def _asked(body: type[msgspec.Struct]) -> dict[str, Any]:
    """A JSON body, for OpenAPI."""
    _, shapes = msgspec.json.schema_components([body], ref_template="#/components/schemas/{name}")
    content = {"application/json": {"schema": shapes[body.__name__]}}
    return {"requestBody": {"required": True, "content": content}}


def rules_routes(
    room: SemanticRoom | None,
    book: JournalBook,
    access: AdminAccess,
    note: Callable[..., None] | None = None,
) -> APIRouter:
    """`room` None: requests are not read for their meaning. `note`: the audit log's, where there is one."""
    router = APIRouter(tags=["semantic"], dependencies=[Depends(access)])
    if room is None:

        @router.get("/config/semantic/rules")
        async def none() -> None:
            """404: there are none."""
            raise SemanticOff(
                "requests are not read for their meaning: set semantic.config to a file of rules"
            )

        return router
    from radixway.semantic.rules_file import version_of
    from radixway.surfaces.rules import shapes

    desk = _Desk(room)

    @router.get("/config/semantic/rules", response_model=shapes.RulesShape)
    async def rules(response: Response) -> shapes.RulesShape:
        """The file of rules, what is in force, and what was before."""
        told = await asyncio.to_thread(desk.describe)
        response.headers["cache-control"] = "no-store"
        if told.version is not None:
            response.headers["etag"] = f'"{told.version}"'
        return told

    @router.get("/config/semantic/rules/{version}", response_class=Response)
    async def past(version: Annotated[str, Meta(max_length=64)]) -> Response:
        """A text that was in force, as YAML."""
        return Response(await desk.find(version), media_type="application/yaml")

    @router.post("/config/semantic/check", response_model=shapes.Checked, openapi_extra=_asked(_Rules))
    async def check(request: Request) -> shapes.Checked:
        """Every mistake in `text`, by its line, as `radixway config check` tells them; nothing changes."""
        asked = await _read(_rules, request)
        try:
            await desk.compiled(asked.text)
        except ConfigError as error:
            return shapes.Checked(ok=False, mistakes=shapes.mistakes_of(error))
        return shapes.Checked(ok=True, mistakes=[])

    @router.post("/config/semantic/try", response_model=shapes.TrialShape, openapi_extra=_asked(_Trial))
    async def try_out(request: Request) -> shapes.TrialShape:
        """What the rules in `text` would make of the `latest` requests, and of `texts`; nothing changes.

        Requests are judged again by the signals that their journals have, as texts are not kept.
        """
        asked = await _read(_trial, request)
        new = await desk.accepted(asked.text)
        latest = book.latest(asked.latest)
        trial = await room.tryout.run(room.snapshots.current, new, latest, asked.texts)
        return shapes.trial_of(trial, _MOST_TOLD)

    @router.put("/config/semantic/rules", response_model=shapes.Applied, openapi_extra=_asked(_Rules) | _SEEN)
    async def apply(request: Request) -> shapes.Applied:
        """Put `text` into the file, and into force. `If-Match` says which version was seen.

        400 with every mistake: nothing has changed. 412: somebody else has changed the file.
        """
        seen = _seen(request)
        asked = await _read(_rules, request)
        return await put(asked.text, seen, "rules_applied")

    @router.post(
        "/config/semantic/rollback", response_model=shapes.Applied, openapi_extra=_asked(_Back) | _SEEN
    )
    async def roll_back(request: Request) -> shapes.Applied:
        """Put the text of a past `version` into the file again; `If-Match` as above."""
        seen = _seen(request)
        asked = await _read(_back, request)
        return await put(await desk.find(asked.version), seen, "rules_rolled_back")

    async def put(text: str, seen: str, kind: str) -> shapes.Applied:
        await desk.accepted(text)
        message = await desk.put(text, seen)
        version = version_of(text)
        log.info("semantic: %s: %s takes the place of %s", kind, version, seen)
        if note is not None:
            note(kind, file=str(room.snapshots.file), version=version, before=seen)
        return shapes.Applied(version=version, message=message)

    return router


class _Desk:
    """Where rules are edited."""

    def __init__(self, room: SemanticRoom) -> None:
        self._room = room

    def describe(self) -> RulesShape:
        """In a thread: it reads files."""
        from radixway.semantic.rules_file import version_of
        from radixway.surfaces.rules import shapes

        snapshots = self._room.snapshots
        said, taken = snapshots.describe(), snapshots.text
        in_force = shapes.InForce(
            text=_as_yaml(snapshots.current) if taken is None else taken,
            version=None if taken is None else version_of(taken),
            checksum=said["checksum"],
            loaded_at=said["loaded_at"],
        )
        told = shapes.RulesShape(
            file=None,
            text=None,
            version=None,
            in_force=in_force,
            error=snapshots.error,
            editable=False,
            why_not="the rules stand in the gateway's own configuration, which is read at its start: "
            "move them to a file and name it under semantic.config",
            past=[],
        )
        if (file := self._file()) is None:
            return told
        told.file, told.past = str(file.path), shapes.past_of(file.past())
        try:
            told.text = file.read()
            told.version = version_of(told.text)
            told.why_not = _not_writable(file)
        except ConfigError as error:
            told.why_not = str(error)
        told.editable = told.why_not is None
        return told

    async def compiled(self, text: str) -> Snapshot:
        """Raises ConfigError, with every mistake that has a line before those that show when it is used."""
        from radixway.semantic.checking import check_text

        snapshots = self._room.snapshots
        if snapshots.file is not None:
            await asyncio.to_thread(check_text, text, snapshots.file)
            return await snapshots.compiled(text)
        raise NotEditable("the rules stand in the gateway's own configuration: semantic.config names no file")

    async def accepted(self, text: str) -> Snapshot:
        """Raises RulesRefused."""
        try:
            return await self.compiled(text)
        except ConfigError as error:
            raise RulesRefused(error) from None

    async def find(self, version: str) -> str:
        """Raises RulesNotKnown."""
        file = self._file()
        text = None if file is None else await asyncio.to_thread(file.find, version)
        if text is None:
            raise RulesNotKnown(f"no rules of version {version!r:.80} are kept")
        return text

    async def put(self, text: str, seen: str) -> str:
        """Write it and take it into force; what is in force then, in words. Where it is not taken after all,
        the file is as it was.

        Raises NotEditable, RulesChanged, NotTaken.
        """
        file = self._file()
        assert file is not None  # or it would not have been compiled
        before = await self._write(file, text, seen)
        outcome = await self._room.snapshots.reload()
        if outcome.ok:
            return outcome.said
        from radixway.semantic.rules_file import version_of

        await self._write(file, before, version_of(text))
        await self._room.snapshots.reload()
        raise NotTaken(f"nothing has changed: {outcome.said}")

    async def _write(self, file: RulesFile, text: str, seen: str) -> str:
        """What stood there before."""
        from radixway.semantic.rules_file import Changed

        try:
            before = await asyncio.to_thread(file.read)
            await asyncio.to_thread(file.write, text, seen)
        except ConfigError as error:
            raise NotEditable(str(error)) from None
        except Changed:
            raise RulesChanged("the file has been changed meanwhile: look at it again") from None
        except OSError as error:
            raise NotEditable(f"{file.path} cannot be written: {error.strerror}") from None
        return before

    def _file(self) -> RulesFile | None:
        from radixway.semantic.rules_file import RulesFile

        path = self._room.snapshots.file
        return None if path is None else RulesFile(path, radixway_home() / "rules")


def _not_writable(file: RulesFile) -> str | None:
    place = file.path.resolve()
    if os.access(place, os.W_OK) and os.access(place.parent, os.W_OK):
        return None
    return f"{file.path} cannot be written by this process"


def _as_yaml(snapshot: Snapshot) -> str:
    tree = snapshot.section.model_dump(mode="json", exclude_unset=True)
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


async def _read(decoder: msgspec.json.Decoder[T], request: Request) -> T:
    return read_json(decoder, await request.body())


def _seen(request: Request) -> str:
    """The version that `If-Match` names. Raises VersionNeeded."""
    given = request.headers.get("if-match", "").strip().removeprefix("W/").strip('"')
    if not given or given == "*":
        raise VersionNeeded("say in If-Match which version you have seen: GET /config/semantic/rules has it")
    return given
