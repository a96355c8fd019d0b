"""`/configs`: models and plugins that may be chosen."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, HTTPException, Request

from radixway.api.chats.messages import PluginEntry
from radixway.chat.model_configs import load_published
from radixway.chat.plugins.plugin import PluginError
from radixway.chat.service import ChatService


def config_routes(room: ChatService) -> APIRouter:
    """Build the routes of models, presets and plugins of `room`."""
    router = APIRouter(prefix="/configs", tags=["configs"])

    @router.get("/model_configs")
    async def model_configs() -> list[dict[str, Any]]:
        """Every model that may be asked now, with the presets of sampling."""
        presets = [asdict(preset) for preset in load_published()[1]]
        return [
            {"name": config.name, "description": "", "parameter_configs": presets}
            for config in room.models.list_configs()
        ]

    @router.get("/builtin_plugins")
    async def builtin_plugins(request: Request) -> list[dict[str, Any]]:
        """Plugins that may be chosen: ours, and the MCP servers of the configuration."""
        return room.plugins.list_entries(str(request.base_url))

    @router.post("/plugin_config")
    async def plugin_config(body: PluginEntry, request: Request) -> dict[str, Any]:
        """A plugin with what its manifest says; fetched from public addresses alone."""
        try:
            found = await room.plugins.load_config(body.url, str(request.base_url))
        except PluginError as error:
            raise HTTPException(404, f"Plugin not found: {error}") from error
        return {"url": body.url, "enabled": body.enabled, "plugin_config": found, "trusted": False}

    return router
