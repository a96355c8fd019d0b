"""What goes wrong with the database, as clients of chats and of responses are told it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy.exc import IntegrityError, ProgrammingError
from starlette.testclient import TestClient

from radixway.api.chats import errors
from radixway.chat.database_outages import DatabaseUnavailableError

KINDS = [
    pytest.param(errors.add_published_error_handlers, lambda told: told["detail"], id="chats"),
    pytest.param(errors.add_openai_error_handlers, lambda told: told["error"]["message"], id="responses"),
]


def client(handlers: Callable[[FastAPI], None], error: Exception) -> TestClient:
    """Of an application whose only call meets that error."""
    app = FastAPI()
    handlers(app)

    @app.get("/")
    async def call() -> None:
        raise error

    return TestClient(app)


@pytest.mark.parametrize(("handlers", "words"), KINDS)
def test_a_database_that_is_away_is_a_503_to_come_back_from(handlers: Any, words: Any) -> None:
    told = client(handlers, DatabaseUnavailableError("OSError: secret-host")).get("/")
    assert (told.status_code, told.headers["retry-after"]) == (503, "1")
    assert words(told.json()) == "The database does not answer"


@pytest.mark.parametrize(("handlers", "words"), KINDS)
def test_what_is_deleted_while_it_is_written_to_is_a_409(handlers: Any, words: Any) -> None:
    told = client(handlers, IntegrityError("INSERT", {}, Exception("FOREIGN KEY"))).get("/")
    assert (told.status_code, words(told.json())) == (409, "Deleted meanwhile")


@pytest.mark.parametrize(("handlers", "words"), KINDS)
def test_a_wrong_statement_is_a_defect_and_no_outage(handlers: Any, words: Any) -> None:
    with pytest.raises(ProgrammingError):
        client(handlers, ProgrammingError("SELEC", {}, Exception("syntax"))).get("/")
