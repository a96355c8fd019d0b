"""Responses, beside the chats that they stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from radixway.chat.completions import Road
from radixway.chat.room import ChatRoom
from radixway.routing import Registry
from radixway.surfaces.chats.responses.app import responses_app
from radixway.surfaces.chats.responses.owners import Owners
from radixway.surfaces.chats.responses.paths import is_for_responses
from radixway.surfaces.chats.responses.room import ResponseRoom
from radixway.surfaces.chats.who import Who
from radixway.tenants import KeyRing


@asynccontextmanager
async def with_responses(
    chats: ASGIApp, room: ChatRoom, road: Road, registry: Registry, ring: KeyRing | None
) -> AsyncIterator[ASGIApp]:
    """The application of chats, with responses beside it. They are answered while this holds.

    `ring`: keys of the section `tenants`.
    """
    responses = ResponseRoom(room, road, registry)
    app = responses_app(responses, Owners(room, Who(room, ring), keys_are_needed=bool(ring)))

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        ours = scope["type"] == "http" and is_for_responses(scope["path"])
        await (app if ours else chats)(scope, receive, send)

    def look(_: object) -> None:
        responses.look_for_workers()

    listens = (registry.on_state, registry.on_learn, registry.on_remove)
    async with responses.running():
        for told in listens:
            told.append(look)
        try:
            yield both
        finally:
            for told in listens:
                told.remove(look)
