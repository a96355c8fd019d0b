"""`/config/semantic`: the rules that judge requests, edited and reloaded; `/feedback`: judging answers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import yaml
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.api.authorization import PathAuthorization
from radixway.api.client_requests import decode_body
from radixway.api.openapi import request_body
from radixway.core.config import ConfigError, radixway_home
from radixway.core.http import BadBodyError, LazyRouter, include_routes
from radixway.core.pipeline import GatewayError
from radixway.core.telemetry import JournalStore

if TYPE_CHECKING:
    from radixway.api.rules.shapes import RulesState
    from radixway.semantics.decisions import SemanticService, SemanticSnapshot
    from radixway.semantics.decisions.rules_file import RulesFile
    from radixway.semantics.guard.audit import AuditService

log = logging.getLogger(__name__)


class _FeedbackBody(msgspec.Struct):
    request_id: Annotated[str, Meta(min_length=1, max_length=256)]
    rating: Literal["up", "down"] | None = None
    score: Annotated[float, Meta(ge=0, le=1)] | None = None


def semantic_routes(
    service: SemanticService | None, book: JournalStore, gate: PathAuthorization, audit: AuditService | None
) -> APIRouter:
    """Build `POST /feedback`, `/config/semantic`, and the paths below it by which rules are edited.

    `service` None: there is no semantic layer. `audit`: records applied rules.
    """
    router = LazyRouter(tags=["semantic"])
    access = gate.access
    if service is None:

        @router.get("/config/semantic/rules", dependencies=[Depends(access)])
        async def none() -> None:
            """404: there are none."""
            message = "requests are not read for their meaning: set semantic.config to a file of rules"
            raise GatewayError(message, status=404, code="semantic_off")

        return router
    note = None if audit is None else audit.log.record_event
    include_routes(router, _rules_routes(service, book, access, note))

    @router.post("/feedback")
    async def feedback(request: Request) -> dict[str, Any]:
        """Record how good an answer was: `request_id` and `rating` (`up`, `down`) or `score` (0 to 1).

        It moves the score that the model has in that category. Tenants judge answers of their own.
        """
        body = await decode_body(request, _FeedbackBody)
        if (body.rating is None) == (body.score is None):
            raise BadBodyError("give either a rating, up or down, or a score from 0 to 1", param="rating")
        reward = body.score if body.score is not None else float(body.rating == "up")
        known = service.feedback.record_feedback(body.request_id, reward, gate.visible_tenant(request))
        if known is None:
            message = f"no decision on {body.request_id!r} is waiting to be judged"
            raise GatewayError(message, status=404, code="request_not_found", param="request_id")
        return {"category": known[0], "model": known[1]}

    @router.get("/config/semantic", dependencies=[Depends(access)])
    async def describe() -> dict[str, Any]:
        """Return the configuration in force, the last reload's result, and feedback counts."""
        return service.snapshots.describe() | {"feedback": service.feedback.describe()}

    @router.post("/config/semantic/reload", dependencies=[Depends(access)])
    async def reload() -> JSONResponse:
        """Read the configuration again. 409, and why, when it cannot be used: the last good one stays."""
        outcome = await service.snapshots.reload_config()
        return JSONResponse({"ok": outcome.ok, "message": outcome.said}, 200 if outcome.ok else 409)

    return router


class RulesInvalidError(GatewayError):
    """The text has mistakes; beside OpenAI's fields, `mistakes` has each with its line."""

    status = 400
    code = "rules_refused"
    param = "text"

    def __init__(self, error: ConfigError) -> None:
        super().__init__(str(error))
        self._error = error

    def body(self) -> bytes:
        """Encode it with `mistakes`."""
        from radixway.api.rules.shapes import describe_mistakes

        reply: dict[str, Any] = msgspec.json.decode(super().body())
        reply["error"]["mistakes"] = [mistake.model_dump() for mistake in describe_mistakes(self._error)]
        return msgspec.json.encode(reply)


_Text = Annotated[str, Meta(min_length=1, max_length=2**20)]
_Version = Annotated[str, Meta(min_length=1, max_length=64)]
_MAX_REPORTED_REQUESTS = 200


class _RulesBody(msgspec.Struct, forbid_unknown_fields=True):
    text: _Text


class _TrialBody(msgspec.Struct, forbid_unknown_fields=True):
    text: _Text
    latest: Annotated[int, Meta(ge=0, le=10_000)] = 1000
    texts: Annotated[list[Annotated[str, Meta(min_length=1, max_length=20_000)]], Meta(max_length=50)] = []


class _RestoreBody(msgspec.Struct, forbid_unknown_fields=True):
    version: _Version


_IF_MATCH_HEADER: dict[str, Any] = {
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


def _rules_routes(
    service: SemanticService, book: JournalStore, access: AdminAccess, note: Callable[..., None] | None
) -> APIRouter:
    """`note` writes to the audit log."""
    router = LazyRouter(tags=["semantic"], dependencies=[Depends(access)])
    from radixway.api.rules import shapes
    from radixway.semantics.decisions.rules_file import text_version

    editor = _RulesEditor(service)

    @router.get("/config/semantic/rules", response_model=shapes.RulesState)
    async def rules(response: Response) -> shapes.RulesState:
        """The file of rules, what is in force, and what was before."""
        state = await asyncio.to_thread(editor.describe_rules)
        response.headers["cache-control"] = "no-store"
        if state.version is not None:
            response.headers["etag"] = f'"{state.version}"'
        return state

    @router.get("/config/semantic/rules/{version}", response_class=Response)
    async def past(version: Annotated[str, Meta(max_length=64)]) -> Response:
        """Return the text of a past `version`, as YAML."""
        return Response(await editor.find_version(version), media_type="application/yaml")

    @router.post(
        "/config/semantic/check",
        response_model=shapes.RulesCheck,
        openapi_extra=request_body(_RulesBody),
    )
    async def check(request: Request) -> shapes.RulesCheck:
        """Report every mistake in `text` with its line, as `radixway config check` does; nothing changes."""
        body = await decode_body(request, _RulesBody)
        try:
            await editor.compile_rules(body.text)
        except ConfigError as error:
            return shapes.RulesCheck(ok=False, mistakes=shapes.describe_mistakes(error))
        return shapes.RulesCheck(ok=True, mistakes=[])

    @router.post(
        "/config/semantic/try",
        response_model=shapes.RulesReplayReport,
        openapi_extra=request_body(_TrialBody),
    )
    async def try_out(request: Request) -> shapes.RulesReplayReport:
        """Replay the `latest` requests, and `texts`, with the rules in `text`; nothing changes.

        Requests are judged again by the signals that their journals have, as texts are not kept.
        """
        body = await decode_body(request, _TrialBody)
        new = await editor.compile_or_refuse(body.text)
        latest = book.latest_journals(body.latest)
        trial = await service.tryout.run_tryout(service.snapshots.current, new, latest, body.texts)
        return shapes.describe_replay(trial, _MAX_REPORTED_REQUESTS)

    @router.put(
        "/config/semantic/rules",
        response_model=shapes.AppliedRules,
        openapi_extra=request_body(_RulesBody) | _IF_MATCH_HEADER,
    )
    async def apply(request: Request) -> shapes.AppliedRules:
        """Put `text` into the file, and into force. `If-Match` says which version was seen.

        400 with every mistake: nothing has changed. 412: the file has changed since that version.
        """
        seen = _seen_version(request)
        body = await decode_body(request, _RulesBody)
        return await put(body.text, seen, "rules_applied")

    @router.post(
        "/config/semantic/rollback",
        response_model=shapes.AppliedRules,
        openapi_extra=request_body(_RestoreBody) | _IF_MATCH_HEADER,
    )
    async def roll_back(request: Request) -> shapes.AppliedRules:
        """Put the text of a past `version` into the file again; `If-Match` as above."""
        seen = _seen_version(request)
        body = await decode_body(request, _RestoreBody)
        return await put(await editor.find_version(body.version), seen, "rules_rolled_back")

    async def put(text: str, seen: str, kind: str) -> shapes.AppliedRules:
        await editor.compile_or_refuse(text)
        message = await editor.apply_rules(text, seen)
        version = text_version(text)
        log.info("semantic: %s: %s replaces %s", kind, version, seen)
        if note is not None:
            note(kind, file=str(service.snapshots.file), version=version, before=seen)
        return shapes.AppliedRules(version=version, message=message)

    return router


class _RulesEditor:
    """Reads and writes the rules' file."""

    def __init__(self, service: SemanticService) -> None:
        self._service = service

    def describe_rules(self) -> RulesState:
        """Describe the rules; run it in a thread, since it reads files."""
        from radixway.api.rules import shapes
        from radixway.semantics.decisions.rules_file import text_version

        snapshots = self._service.snapshots
        description, taken = snapshots.describe(), snapshots.text
        text = taken
        if text is None:
            tree = snapshots.current.section.model_dump(mode="json", exclude_unset=True)
            text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
        in_force = shapes.ActiveRules(
            text=text,
            version=None if taken is None else text_version(taken),
            checksum=description["checksum"],
            loaded_at=description["loaded_at"],
        )
        state = shapes.RulesState(
            in_force=in_force,
            error=snapshots.error,
            editable=False,
            why_not="the rules stand in the gateway's own configuration, which is read at its start: "
            "move them to a file and name it under semantic.config",
        )
        if (file := self._rules_file()) is None:
            return state
        state.file, state.past = str(file.path), shapes.describe_past_rules(file.list_versions())
        try:
            state.text = file.read_text()
            state.version = text_version(state.text)
            place = file.path.resolve()
            is_writable = os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)
            state.why_not = None if is_writable else f"{file.path} cannot be written by this process"
        except ConfigError as error:
            state.why_not = str(error)
        state.editable = state.why_not is None
        return state

    async def compile_rules(self, text: str) -> SemanticSnapshot:
        """Compile `text`. Raises ConfigError, with every mistake that has a line before those that show when
        it is used.
        """
        from radixway.semantics.decisions.section_validation import parse_section

        snapshots = self._service.snapshots
        if snapshots.file is not None:
            await asyncio.to_thread(parse_section, text, snapshots.file)
            return await snapshots.compile_text(text)
        raise _not_editable(
            "the rules stand in the gateway's own configuration: semantic.config names no file"
        )

    async def compile_or_refuse(self, text: str) -> SemanticSnapshot:
        try:
            return await self.compile_rules(text)
        except ConfigError as error:
            raise RulesInvalidError(error) from None

    async def find_version(self, version: str) -> str:
        file = self._rules_file()
        text = None if file is None else await asyncio.to_thread(file.find_version, version)
        if text is None:
            message = f"no rules of version {version!r:.80} are kept"
            raise GatewayError(message, status=404, code="rules_not_found", param="version")
        return text

    async def apply_rules(self, text: str, seen: str) -> str:
        """Write `text` and reload; return the rules in force in words. If the reload refuses it, the file is
        restored. Raises GatewayError: not editable, changed since `seen`, or not applied.
        """
        file = self._rules_file()
        assert file is not None  # or it would not have been compiled
        before = await self._replace_text(file, text, seen)
        outcome = await self._service.snapshots.reload_config()
        if outcome.ok:
            return outcome.said
        from radixway.semantics.decisions.rules_file import text_version

        await self._replace_text(file, before, text_version(text))
        await self._service.snapshots.reload_config()
        raise GatewayError(f"nothing has changed: {outcome.said}", status=409, code="rules_not_taken")

    async def _replace_text(self, file: RulesFile, text: str, seen: str) -> str:
        from radixway.semantics.decisions.rules_file import RulesFileChangedError

        try:
            before = await asyncio.to_thread(file.read_text)
            await asyncio.to_thread(file.write_text, text, seen)
        except ConfigError as error:
            raise _not_editable(str(error)) from None
        except RulesFileChangedError:
            message = "the file has changed since: read it again"
            raise GatewayError(message, status=412, code="rules_changed", param="if-match") from None
        except OSError as error:
            raise _not_editable(f"{file.path} cannot be written: {error.strerror}") from None
        return before

    def _rules_file(self) -> RulesFile | None:
        from radixway.semantics.decisions.rules_file import RulesFile

        path = self._service.snapshots.file
        return None if path is None else RulesFile(path, radixway_home() / "rules")


def _not_editable(why: str) -> GatewayError:
    return GatewayError(why, status=409, code="rules_not_editable")


def _seen_version(request: Request) -> str:
    given = request.headers.get("if-match", "").strip().removeprefix("W/").strip('"')
    if not given or given == "*":
        message = "say in If-Match which version you have seen: GET /config/semantic/rules has it"
        raise GatewayError(message, status=428, code="version_needed", param="if-match")
    return given
