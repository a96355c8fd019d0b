"""`/sessions` and `/samples`: for operators of agents and for trainers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response, StreamingResponse
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.api.authorization import PathAuthorization
from radixway.api.client_requests import decode_body
from radixway.api.error_handlers import error_response
from radixway.api.sessions.dispatch import begin_turn, requested_continuation
from radixway.api.sessions.export import ARROW, NDJSON, require_arrow, stream_arrow, stream_json_lines
from radixway.api.sessions.session_service import SessionService
from radixway.core.http import HttpError, LazyRouter, ReshapedError, decode_query
from radixway.core.pipeline import BadRequest
from radixway.core.pipeline.endpoints import ModelName
from radixway.core.protocols import AnthropicAdapter
from radixway.trajectories.sessions import AgentSession, SessionCall

Finite = Annotated[float, Meta(ge=-1e308, le=1e308)]


class _CreateSessionBody(msgspec.Struct, forbid_unknown_fields=True):
    session_id: str | None = None
    id: str | None = None
    model: ModelName | None = None
    metadata: dict[str, Any] | None = None


class _RewardBody(msgspec.Struct, forbid_unknown_fields=True):
    reward: Finite | None
    call: str | None = None
    """A call's id, or a reply's (`chatcmpl-…`, `resp_…`, `msg_…`)."""


class _FetchQuery(msgspec.Struct):
    format: Literal["json", "jsonl", "arrow"] | None = None
    collect: bool = False
    """Release the tokens once the samples have been sent."""


class _ListQuery(msgspec.Struct):
    state: Literal["open", "finished", "collected"] | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


_ANTHROPIC = AnthropicAdapter(takes_images=True)
_MAX_METADATA_DEPTH = 64


def session_routes(service: SessionService, access: AdminAccess) -> APIRouter:
    """Build the routes for operators and trainers, guarded by `access`."""
    router = LazyRouter(tags=["sessions"], dependencies=[Depends(access)])
    Session = Annotated[AgentSession, Depends(service.find_session)]

    @router.post("/sessions", status_code=201)
    async def make_session(request: Request) -> dict[str, Any]:
        """A new session; the first call to an unknown one makes it too."""
        body = await decode_body(request, _CreateSessionBody, b"{}")
        if _nests_deeper(body.metadata, _MAX_METADATA_DEPTH):
            raise BadRequest(
                f"metadata: is nested more than {_MAX_METADATA_DEPTH} levels deep", param="metadata"
            )
        session = await service.create_session(body.session_id or body.id, body.model, body.metadata)
        base = str(request.base_url).rstrip("/")
        return {**_session_object(session), "base_url": f"{base}/sessions/{session.id}/v1"}

    @router.get("/sessions")
    async def list_sessions(request: Request) -> dict[str, Any]:
        """List the sessions, the newest last."""
        query = decode_query(request.query_params, _ListQuery)
        await service.finish_idle_sessions()
        found = [session for session in service.book if query.state in (None, session.state)]
        return {
            "count": len(found),
            "sessions": [_session_object(session) for session in found[-query.limit :]],
        }

    @router.get("/sessions/{session_id}")
    async def show_session(session: Session) -> dict[str, Any]:
        """Return `session_id` and the tree of its calls."""
        return {**_session_object(session), "tree": [_call_object(call) for call in session.calls.values()]}

    @router.delete("/sessions/{session_id}")
    async def delete_session(session: Session) -> dict[str, Any]:
        """Delete `session_id`, whatever its state."""
        await service.delete_session(session)
        return {"session_id": session.id, "deleted": True}

    @router.post("/sessions/{session_id}/finish")
    async def finish_session(session: Session) -> dict[str, Any]:
        """Finish `session_id`: no more calls; may be called again."""
        await service.finish_session(session)
        return _session_object(session)

    @router.post("/sessions/{session_id}/reward")
    async def set_reward(session: Session, request: Request) -> dict[str, Any]:
        """Set the reward of `session_id`, or of one of its calls; null removes it."""
        body = await decode_body(request, _RewardBody)
        call = _find_named_call(session, body.call) if body.call is not None else None
        await service.set_reward(session, body.reward, call)
        return {"session_id": session.id, "call": call.id if call else None, "reward": body.reward}

    @router.get("/sessions/{session_id}/samples")
    async def session_samples(session: Session, request: Request) -> Response:
        """Return the training samples of `session_id`, one for each leaf."""
        query = decode_query(request.query_params, _FetchQuery)
        if query.format in ("jsonl", "arrow"):
            return _export_response(service, [session], query)
        samples = await service.training_samples(session)
        encoded: list[bytes] = []
        for sample in samples:
            encoded.append(msgspec.json.encode(sample))
            await asyncio.sleep(0)
        raw = msgspec.Raw(b"[%b]" % b",".join(encoded))
        body = msgspec.json.encode({**_session_object(session), "samples": raw})
        if not query.collect:
            return Response(body, media_type="application/json")
        if session.state != "collected":
            service.check_collectable(session)
        return StreamingResponse(
            _collected_after(_single_chunk(body), service, [session]), media_type="application/json"
        )

    @router.get("/samples")
    async def all_samples(request: Request) -> Response:
        """The samples of all finished sessions that have not been collected."""
        query = decode_query(request.query_params, _FetchQuery)
        if query.format == "json":
            raise BadRequest("format: jsonl or arrow, for all sessions", param="format")
        await service.finish_idle_sessions()
        finished = [session for session in service.book if session.state == "finished" and not session.turns]
        return _export_response(service, finished, query)

    return router


def count_routes(service: SessionService, gate: PathAuthorization) -> APIRouter:
    """Build the paths that agents call beside the protocols themselves."""
    router = LazyRouter(tags=["sessions"])

    @router.post("/sessions/{session_id}/v1/messages/count_tokens")
    async def count_tokens(session_id: str, request: Request) -> Response:
        """Count the tokens of a call; exact, for the session's own history too."""
        try:
            ask = _ANTHROPIC.parse_count_request(await request.body())
            tenancy = gate.tenant_policy_of(request)
            session = await service.session_for_call(session_id, None if tenancy is None else tenancy.name)
            codec = await service.codecs.codec_for(session.model or ask.model)
            _, turn = await begin_turn(service, session, requested_continuation(session, ask, codec), codec)
            session.drop_call(turn)
        except HttpError as error:
            return error_response(ReshapedError(error, _ANTHROPIC.encode_error_body(error)))
        return Response(msgspec.json.encode({"input_tokens": turn.sampled_at}), media_type="application/json")

    return router


def _export_response(
    service: SessionService, sessions: list[AgentSession], query: _FetchQuery
) -> StreamingResponse:
    for session in sessions:
        service.check_readable(session)
        if query.collect and session.state != "collected":
            service.check_collectable(session)
    if query.format == "arrow":
        require_arrow()
    write = stream_arrow if query.format == "arrow" else stream_json_lines
    body = write(service, sessions)
    if query.collect:
        body = _collected_after(body, service, sessions)
    return StreamingResponse(body, media_type=ARROW if query.format == "arrow" else NDJSON)


async def _single_chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _collected_after(
    body: AsyncIterator[bytes], service: SessionService, sessions: list[AgentSession]
) -> AsyncIterator[bytes]:
    """Pass `body` on; once all of it was sent, the sessions are collected."""
    async for part in body:
        yield part
    for session in sessions:
        if service.book.find_session(session.id) is session:
            await service.mark_collected(session)


def _nests_deeper(value: Any, levels: int) -> bool:
    below = [value]
    for _ in range(levels):
        containers = [node for node in below if isinstance(node, dict | list)]
        below = [part for node in containers for part in (node.values() if isinstance(node, dict) else node)]
    return bool(below)


def _find_named_call(session: AgentSession, name: str) -> SessionCall:
    call = session.calls.get(name.removeprefix("chatcmpl-").removeprefix("cmpl-"))
    call = call or session.calls.get(name.partition("_")[2])
    if call is None:
        raise BadRequest(f"call: the session {session.id!r} has no call {name[:80]!r}", param="call")
    return call


def _session_object(session: AgentSession) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "state": session.state,
        "model": session.model,
        "metadata": session.metadata,
        "created": session.created,
        "used": session.used,
        "calls": len(session.calls) if session.loaded else session.stored_calls,
        "under_way": len(session.turns),
        "reward": session.reward,
    }


def _call_object(call: SessionCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "parent": call.parent.id if call.parent is not None else None,
        "wire": call.wire,
        "model": call.model,
        "created": call.created,
        "messages": len(call.messages),
        "known_tokens": call.begin,
        "prompt_tokens": call.sampled_at - call.begin,
        "sampled_tokens": call.end - call.sampled_at,
        "finish_reason": call.finish,
        "reward": call.reward,
        "exact": call.exact,
        "deviations": list(call.deviations),
    }
