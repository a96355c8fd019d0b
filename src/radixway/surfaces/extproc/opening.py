"""A gateway's door for Envoy, from its configuration."""

from __future__ import annotations

from collections.abc import Collection

from radixway.config import Config, ConfigError
from radixway.surfaces.extproc.conversation import StreamSettings
from radixway.surfaces.extproc.destinations import DestinationResolver
from radixway.surfaces.extproc.server import ExtProcServer
from radixway.web import App

_MODELS = "/v1/models"
_BESIDE_THE_BODY = 2**20
"""Bytes that a message may have beside a request's body: headers, and what the protocol needs."""


def create_ext_proc_server(config: Config, app: App, paths: Collection[str], via: bytes) -> ExtProcServer:
    """The door to `app`, for requests to `paths` and for `/v1/models`; `via` is the gateway's mark.

    Raises ConfigError: bodies as large as they may be would not come through.
    """
    section = config.ext_proc
    if section.max_message_bytes < config.gateway.max_body_bytes + _BESIDE_THE_BODY:
        raise ConfigError(
            "ext_proc.max_message_bytes: a body of gateway.max_body_bytes must fit into a message, "
            f"so at least {config.gateway.max_body_bytes + _BESIDE_THE_BODY}"
        )

    def is_ours(method: str, path: str) -> bool:
        return path in paths or (method == "GET" and (path == _MODELS or path.startswith(_MODELS + "/")))

    terms = StreamSettings(
        app=app,
        is_ours=is_ours,
        destinations=DestinationResolver(section.destinations),
        via=via,
        clear_route_cache=section.clear_route_cache,
        other_paths=section.other_paths,
        answer_within_s=section.answer_within_s,
        max_answer_bytes=config.limits.workers.max_answer_bytes,
    )
    return ExtProcServer(section, terms, config.gateway.drain_s)
