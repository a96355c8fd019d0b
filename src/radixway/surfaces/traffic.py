"""Following the traffic, for `radixway record`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from radixway.surfaces.access import AdminAccess
from radixway.transports import Follower, Traffic


def traffic_routes(traffic: Traffic, access: AdminAccess) -> APIRouter:
    """`/traffic`."""
    router = APIRouter(tags=["gateway"], dependencies=[Depends(access)])

    @router.get("/traffic", response_class=StreamingResponse)
    async def follow_traffic() -> StreamingResponse:
        """A line of JSON for each request that is answered from now on, without its text.

        The stream ends when the gateway stops, or when its reader falls too far behind.
        """
        return StreamingResponse(_lines(traffic.follow()), media_type="application/x-ndjson")

    return router


async def _lines(follower: Follower) -> AsyncIterator[bytes]:
    try:
        async for line in follower:
            yield line
    finally:
        follower.close()
