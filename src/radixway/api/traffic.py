"""Following the traffic, for `radixway record`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from radixway.api.admin_access import AdminAccess
from radixway.routing.transports import TrafficFeed, TrafficFollower


def traffic_routes(traffic: TrafficFeed, access: AdminAccess) -> APIRouter:
    """`/traffic`."""
    router = APIRouter(tags=["gateway"], dependencies=[Depends(access)])

    @router.get("/traffic", response_class=StreamingResponse)
    async def follow_traffic() -> StreamingResponse:
        """A line of JSON for each request that is answered from now on, without its text.

        The stream ends when the gateway stops, or when its reader falls too far behind.
        """
        return StreamingResponse(_traffic_lines(traffic.add_follower()), media_type="application/x-ndjson")

    return router


async def _traffic_lines(follower: TrafficFollower) -> AsyncIterator[bytes]:
    try:
        async for line in follower:
            yield line
    finally:
        follower.stop_following()
