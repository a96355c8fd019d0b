"""Sessions between two awaits: finished, deleted or not written while something of them is under way."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from radixway.api.sessions.errors import SessionArchiveError, SessionConflictError
from radixway.api.sessions.export import stream_json_lines
from radixway.api.sessions.session_service import SessionService
from radixway.core.component import CannotErase, Subject, running
from radixway.core.config import ConfigError, TrajectoriesConfig
from radixway.core.pipeline import GatewayError
from radixway.trajectories.generate_replies import SampledTokens
from radixway.trajectories.sessions import AgentSession, CallRequest, PendingCall
from radixway.trajectories.token_records import sampled_spans
from support.conversations import tokenizer, user

QUESTION = CallRequest("m", [user("Hello")])
ANSWER = {"role": "assistant", "content": "Hi"}


async def any_model(model: str | None) -> tuple[str, Any]:
    return model or "m", tokenizer()


@asynccontextmanager
async def open_service(path: Path | None = None) -> AsyncIterator[SessionService]:
    service = SessionService(TrajectoriesConfig(sessions={"path": path}), any_model)
    async with running([service]):
        yield service


async def begin(service: SessionService, session: AgentSession) -> PendingCall:
    return (await service.begin_turn(session, QUESTION, await service.codecs.codec_for("m")))[1]


async def end(service: SessionService, session: AgentSession, turn: PendingCall, call_id: str = "c") -> None:
    answer = SampledTokens([5, 6], "Hi", array("f", [-0.5, -0.5]), sampled_spans(2, "1"), "1", None)
    await service.record_call(
        session, turn, call_id, answer, await service.codecs.codec_for("m"), answer=ANSWER, finish="stop"
    )


async def test_no_call_begins_in_a_session_that_was_finished_while_its_prompt_was_made() -> None:
    async with open_service() as service:
        session = await service.create_session("s")
        await service.finish_session(session)
        with pytest.raises(SessionConflictError, match="finished"):
            await begin(service, session)
        assert not session.turns


async def test_a_call_that_could_not_be_written_is_none(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "sessions.db"
    async with open_service(path) as service:
        session = await service.create_session("s")
        with monkeypatch.context() as full:

            def write_call(*_: Any) -> None:
                raise sqlite3.OperationalError("database or disk is full")

            full.setattr(service._archive, "write_call", write_call)
            with pytest.raises(SessionArchiveError):
                await end(service, session, await begin(service, session), "lost")
        assert not session.calls
        await end(service, session, await begin(service, session), "kept")
        session.check()
    async with open_service(path) as service:
        assert list((await service.find_session("s")).calls) == ["kept"]


async def test_a_deleted_session_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    async with open_service(path) as service:
        session = await service.create_session("s")
        await service.delete_session(session)
        await service.finish_session(session)
    async with open_service(path) as service:
        assert len(service.book) == 0


async def test_an_export_leaves_out_what_somebody_else_collects_meanwhile() -> None:
    async with open_service() as service:
        sessions = [await service.create_session(name) for name in ("one", "two")]
        for session in sessions:
            await end(service, session, await begin(service, session), session.id)
            await service.finish_session(session)
        lines = stream_json_lines(service, sessions)
        assert b'"one"' in await anext(lines)
        await service.mark_collected(sessions[1])
        assert [line async for line in lines] == []
        with pytest.raises(GatewayError, match="was collected"):
            service.check_readable(sessions[1])


async def test_models_that_are_only_names_are_forgotten() -> None:
    async with open_service() as service:
        for number in range(200):
            await service.codecs.codec_for(f"model {number}")
        assert len(service.codecs) <= 64


async def test_a_file_that_is_none_of_ours_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Not a database, however long one looks at it. " * 100)
    with pytest.raises(ConfigError, match=r"trajectories\.sessions\.path"):
        async with open_service(path):
            pass


async def test_somebody_is_forgotten_whose_call_is_under_way_as_soon_as_it_ends() -> None:
    async with open_service() as service:
        hers, his = (
            await service.session_for_call("hers", user="alice"),
            await service.session_for_call("his", user="bob"),
        )
        for session in (hers, his):
            await end(service, session, await begin(service, session), session.id)
        store = service.book.store
        whole = store.tokens
        turn = await begin(service, hers)
        with pytest.raises(CannotErase, match="under way"):
            await service.erase(Subject("default", "alice"))
        assert service.book.find_session("hers") is None
        await end(service, hers, turn, "late")
        assert await service.erase(Subject("default", "alice")) == 0
        assert store.tokens == whole, "both said the same: his record stays"
        assert await service.erase(Subject("default", session="his")) == 1
        assert store.tokens == 0
        store.check()


async def test_what_the_file_could_not_forget_is_not_taken_for_forgotten(
    tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "sessions.db"
    async with open_service(path) as service:
        session = await service.session_for_call("hers", user="alice")
        await end(service, session, await begin(service, session))
        with monkeypatch.context() as full:

            def delete(*_: Any) -> None:
                raise sqlite3.OperationalError("database is locked")

            full.setattr(service._archive, "delete_session", delete)
            for _ in range(2):
                with pytest.raises(CannotErase):
                    await service.erase(Subject("default", "alice"))
        await service.erase(Subject("default", "alice"))
    async with open_service(path) as service:
        assert len(service.book) == 0
