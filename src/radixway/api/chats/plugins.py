"""`/configs`: models and plugins that may be chosen. `/plugins`: the built-in ones, which workers call."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from radixway.api.chats.bodies import PluginEntry
from radixway.chat.model_configs import load_published
from radixway.chat.plugins.builtin_plugins import BuiltinPlugin, render_icon
from radixway.chat.plugins.plugin import PluginError, ToolError, strip_unstorable
from radixway.chat.service import ChatService
from radixway.core.http import LazyRouter


def config_routes(service: ChatService) -> APIRouter:
    """Build the routes of models, presets and plugins of `service`."""
    router = LazyRouter(prefix="/configs", tags=["configs"])

    @router.get("/model_configs")
    async def model_configs() -> list[dict[str, Any]]:
        """List every model that may be asked now, with the sampling presets."""
        presets = [asdict(preset) for preset in load_published()[1]]
        return [
            {"name": config.name, "description": "", "parameter_configs": presets}
            for config in service.models.list_configs()
        ]

    @router.get("/builtin_plugins")
    async def builtin_plugins(request: Request) -> list[dict[str, Any]]:
        """Plugins that may be chosen: ours, and the MCP servers of the configuration."""
        return service.plugins.list_entries(str(request.base_url))

    @router.post("/plugin_config")
    async def plugin_config(body: PluginEntry, request: Request) -> dict[str, Any]:
        """A plugin with what its manifest says; fetched from public addresses alone."""
        try:
            found = await service.plugins.load_config(body.url, str(request.base_url))
        except PluginError as error:
            raise HTTPException(404, f"Plugin not found: {error}") from error
        return {"url": body.url, "enabled": body.enabled, "plugin_config": found, "trusted": False}

    return router


_ANYWHERE = {"access-control-allow-origin": "*"}
"""Web pages of other sites read manifests, too."""
_MAX_PARAMETER_CHARS = 8192


def plugin_routes(service: ChatService) -> APIRouter:
    """Build manifests, interfaces, icons and calls of plugins. None needs a login: manifests say so."""
    router = LazyRouter(prefix="/plugins/{name}", tags=["plugins"])
    Name = Annotated[str, Path(max_length=64)]

    def found(name: str) -> BuiltinPlugin:
        plugin = service.plugins.find_builtin(name)
        if plugin is None:
            raise HTTPException(404, "Plugin not found")
        return plugin

    @router.get("/ai-plugin.json")
    async def manifest(name: Name, request: Request) -> JSONResponse:
        """Return the plugin's manifest, which says where its interface is described."""
        return JSONResponse(found(name).to_manifest(str(request.base_url)), headers=_ANYWHERE)

    @router.get("/openapi.json")
    async def openapi(name: Name) -> JSONResponse:
        """Return the plugin's interface."""
        return JSONResponse(found(name).to_openapi(), headers=_ANYWHERE)

    @router.get("/icon.png", response_class=Response)
    async def picture(name: Name) -> Response:
        """Return the plugin's icon."""
        return Response(render_icon(found(name).colour), media_type="image/png", headers=_ANYWHERE)

    @router.get("/{operation}/", response_class=PlainTextResponse)
    async def call(name: Name, operation: Annotated[str, Path(max_length=64)], request: Request) -> Response:
        """Return the plugin's reply, or its error."""
        plugin = found(name)
        if plugin.path != f"/{operation}/":
            raise HTTPException(404, "Not Found")
        try:
            text = await plugin.answer(_read_parameters(plugin, request))
        except ToolError as error:
            message = f"Sorry, {error}\nYou should report this message to the user!"
            return JSONResponse({"error": message}, 400, _ANYWHERE)
        return PlainTextResponse(text, headers=_ANYWHERE)

    return router


def _read_parameters(plugin: BuiltinPlugin, request: Request) -> dict[str, str]:
    given = {name: strip_unstorable(text) for name, text in request.query_params.items()}
    wrong: list[dict[str, Any]] = []
    for name in plugin.parameters:
        if name not in given:
            wrong.append({"loc": ("query", name), "type": "missing", "msg": "field required"})
        elif len(given[name]) > _MAX_PARAMETER_CHARS:
            context = {"max_length": _MAX_PARAMETER_CHARS}
            wrong.append({"loc": ("query", name), "type": "string_too_long", "msg": "", "ctx": context})
    if wrong:
        raise RequestValidationError(wrong)
    return {name: given[name] for name in plugin.parameters}
