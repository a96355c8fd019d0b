"""What every body is: text and numbers that a database and JSON can hold."""

from __future__ import annotations

import json
from typing import Any

from fastapi import HTTPException
from pydantic import BaseModel, ConfigDict, field_validator
from starlette.requests import HTTPConnection


class Body(BaseModel):
    """A body, or a part of one. Unknown fields are passed over, as published."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _can_be_kept(cls, value: Any) -> Any:
        """PostgreSQL has no U+0000 in text; neither database nor answers have lone surrogates or NaN."""
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                _check_text(each)
        if isinstance(value, dict):
            try:
                json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
            except (ValueError, RecursionError):
                raise ValueError("this cannot be written as JSON") from None
        return value


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ValueError("text cannot hold U+0000")
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise ValueError("text cannot hold lone surrogates")


async def readable_address(connection: HTTPConnection) -> None:
    """A FastAPI dependency. Raises HTTPException: path or query hold U+0000, which nothing is named by."""
    scope = connection.scope
    if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
        raise HTTPException(404, "Not Found")
