"""The checks of every body and path: text and numbers that a database and JSON can hold."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator
from starlette.responses import JSONResponse

from radixway.core.http import App, Receive, Scope, Send


class LenientRequestBody(BaseModel):
    """A body, or a part of one. Unknown fields are passed over, as published."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _check_storable(cls, value: Any) -> Any:
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


class NulPathFilter:
    """An ASGI middleware. Nothing is named by U+0000, which PostgreSQL cannot even be asked for: 404."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "\x00" not in scope.get("path", "") and b"%00" not in scope.get("query_string", b""):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await JSONResponse({"detail": "Not Found"}, 404)(scope, receive, send)
