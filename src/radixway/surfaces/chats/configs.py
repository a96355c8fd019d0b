"""`/configs`: what may be asked for."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from radixway.chat.model_configs import published
from radixway.chat.room import ChatRoom


def config_routes(room: ChatRoom) -> APIRouter:
    """Models and presets."""
    router = APIRouter(prefix="/configs", tags=["configs"])

    @router.get("/model_configs")
    async def model_configs() -> list[dict[str, Any]]:
        """Every model that may be asked now, with the presets of sampling."""
        presets = [asdict(preset) for preset in published()[1]]
        return [
            {"name": config.name, "description": "", "parameter_configs": presets}
            for config in room.models.all()
        ]

    return router
