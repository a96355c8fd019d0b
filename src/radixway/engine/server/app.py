"""The engine's ASGI application: its routes, and how failures are reported."""

import asyncio
import hmac
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from radixway.bundled import SHIPPED_MODELS
from radixway.core.config.engine import EngineConfig
from radixway.core.http import (
    AttemptLimiter,
    BadBodyError,
    ClientDisconnectedError,
    HttpError,
    MethodNotAllowedError,
    OriginCheck,
    Receive,
    Scope,
    Send,
    ServerStoppingError,
    decode_json,
    is_server_stopping,
)
from radixway.core.telemetry import log_fields
from radixway.core.telemetry.tracing import RequestTracer
from radixway.core.tokenizer import TemplateError, Tokenizer
from radixway.engine.engine import Engine
from radixway.engine.errors import EngineError
from radixway.engine.server import score as scores
from radixway.engine.server import status, tracing
from radixway.engine.server import weight_routes as weights
from radixway.engine.server.chat_completions import ChatCompletionBody, chat_completions
from radixway.engine.server.completions import TextCompletionBody, completions
from radixway.engine.server.endpoints import BodyEndpoint, EndpointHandler, describe_routes
from radixway.engine.server.engine_service import EngineService
from radixway.engine.server.generate import ConcatenateBody, GenerateRequestBody, concatenate, generate
from radixway.engine.server.http_exchange import HttpExchange, to_http_error, weight_update_error
from radixway.engine.server.metrics import ServerMetrics
from radixway.engine.server.prefetch import PrefetchBody, prefetch
from radixway.engine.server.protocol_endpoints import (
    count_message_tokens,
    count_response_tokens,
    messages,
    responses,
)
from radixway.engine.server.sampling import SamplingDefaults
from radixway.engine.server.tgi_stream import TgiStreamBody, generate_stream
from radixway.engine.server.tgi_stream import shape_error as shape_tgi_error
from radixway.engine.server.token_routes import (
    MAX_TOKENIZE_BYTES,
    DetokenizeBody,
    TokenizeBody,
    detokenize,
    tokenize,
    tokenizer_info,
)

log = logging.getLogger(__name__)

_MAX_BODY_BYTES = 32 * 1024 * 1024


def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of this server."""
    return describe_routes(_ROUTES | {"/v1/models/{model}": _MODEL_ROUTE})


async def openapi(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """This document."""
    await exchange.send_json(openapi_document())


class _InvocationBody(msgspec.Struct):
    """What tells one kind of body from another."""

    messages: Any = None
    prompt: Any = None


_chat = BodyEndpoint(ChatCompletionBody, chat_completions)
_completions = BodyEndpoint(TextCompletionBody, completions)
_invocation_decoder = msgspec.json.Decoder(_InvocationBody)


async def invocations(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """SageMaker's path: a chat if the body has `messages`, a completion if it has a `prompt`."""
    body = decode_json(_invocation_decoder, raw)
    if body.messages is None and body.prompt is None:
        message = "messages or prompt: missing; this engine serves chats and completions here"
        raise BadBodyError(message, param="messages", code="missing_field")
    endpoint = _completions if body.messages is None else _chat
    await endpoint(service, exchange, raw)


_generate = BodyEndpoint(GenerateRequestBody, generate)
_generate_stream = BodyEndpoint(TgiStreamBody, generate_stream)
_tokenize = BodyEndpoint(TokenizeBody, tokenize, max_bytes=MAX_TOKENIZE_BYTES)
_detokenize = BodyEndpoint(DetokenizeBody, detokenize)
_weights_by_name = BodyEndpoint(weights.WeightQueryBody, weights.by_name, takes_query=True)


_ROUTES: dict[str, dict[str, EndpointHandler]] = {
    "/v1/chat/completions": {"POST": _chat},
    "/v1/completions": {"POST": _completions},
    "/v1/models": {"GET": status.models},
    "/v1/messages": {"POST": messages},
    "/v1/messages/count_tokens": {"POST": count_message_tokens},
    "/v1/responses": {"POST": responses},
    "/v1/responses/input_tokens": {"POST": count_response_tokens},
    "/v1/score": {"POST": BodyEndpoint(scores.ScoreBody, scores.score)},
    "/invocations": {"POST": invocations},
    "/generate": {"POST": _generate, "PUT": _generate},
    "/generate_stream": {"POST": _generate_stream},
    "/prefetch": {"POST": BodyEndpoint(PrefetchBody, prefetch)},
    "/concate_and_append_request": {"POST": BodyEndpoint(ConcatenateBody, concatenate)},
    "/tokenize": {"POST": _tokenize},
    "/v1/tokenize": {"POST": _tokenize},
    "/detokenize": {"POST": _detokenize},
    "/v1/detokenize": {"POST": _detokenize},
    "/tokenizer_info": {"GET": tokenizer_info},
    "/health": {"GET": status.health, "HEAD": status.health},
    "/ready": {"GET": status.ready, "HEAD": status.ready},
    "/health_generate": {"GET": status.health_generate},
    "/ping": {"GET": status.health, "POST": status.health},
    "/version": {"GET": status.version},
    "/metrics": {"GET": status.metrics},
    "/get_model_info": {"GET": status.model_info},
    "/model_info": {"GET": status.model_info},
    "/server_info": {"GET": status.server_info},
    "/get_server_info": {"GET": status.server_info},
    "/v1/loads": {"GET": status.loads},
    "/get_load": {"GET": status.rank_loads},
    "/load": {"GET": status.server_load},
    "/is_sleeping": {"GET": status.is_sleeping},
    "/cached_prefixes": {"GET": status.cached_prefixes},
    "/flush_cache": {"GET": status.flush_cache, "POST": status.flush_cache},
    "/reset_prefix_cache": {"POST": status.flush_cache},
    "/abort_request": {"POST": BodyEndpoint(status.AbortBody, status.abort_request)},
    "/pause_generation": {
        "POST": BodyEndpoint(weights.PauseBody, weights.pause_generation, is_optional=True)
    },
    "/continue_generation": {"POST": weights.continue_generation},
    "/update_weights_from_disk": {"POST": BodyEndpoint(weights.DiskUpdateBody, weights.update_from_disk)},
    "/update_weights_from_tensor": {"POST": weights.update_from_tensor},
    "/update_weight_version": {"POST": BodyEndpoint(weights.WeightVersionBody, weights.update_version)},
    "/get_weight_version": {"GET": weights.version},
    "/weight_version": {"GET": weights.version},
    "/get_weights_by_name": {"GET": _weights_by_name, "POST": _weights_by_name},
    "/openapi.json": {"GET": openapi},
}
_ERROR_SHAPES: dict[str, Callable[[HttpError], HttpError]] = {
    "/v1/messages": messages.shape_error,
    "/v1/messages/count_tokens": messages.shape_error,
    "/generate_stream": shape_tgi_error,
    "/v1/score": scores.shape_error,
}
"""The others are OpenAI's."""
_TRACED = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/messages",
        "/v1/responses",
        "/generate",
        "/generate_stream",
        "/v1/score",
        "/invocations",
    }
)
_FOR_PROBES = frozenset({"/health", "/ping", "/ready"})
"""Probes use all kinds of host names and have no key."""
_MODEL_ROUTE: dict[str, EndpointHandler] = {"GET": status.model}


def build_app(
    engine: Engine,
    tokenizer: Tokenizer,
    config: EngineConfig,
    *,
    max_body_bytes: int = _MAX_BODY_BYTES,
    tracing: RequestTracer | None = None,
) -> "EngineApp":
    """The ASGI application over an engine that is started and stopped elsewhere, as `tracing` is."""
    info = engine.model_info
    is_hub_id = config.model not in SHIPPED_MODELS and not Path(config.model).exists()
    name = config.model if is_hub_id and not config.served_model_name else info.name
    return EngineApp(
        EngineService(
            engine=engine,
            tokenizer=tokenizer,
            config=config,
            names=(name,),
            metrics=ServerMetrics(engine.stats),
            defaults=SamplingDefaults.load_defaults(Path(info.path), config.model)
            if config.generation_config == "auto"
            else SamplingDefaults(),
            tokenizer_path=info.path,
            max_body_bytes=max_body_bytes,
            started_at=int(time.time()),
            tracing=tracing,
        )
    )


class EngineApp:
    """Answers every HTTP request; a failure becomes a status and a message."""

    def __init__(self, service: EngineService) -> None:
        self.service = service
        self._origins = OriginCheck(
            site_help="pages ask a gateway, not its engine", host_help="give the engine a key (--api-key)"
        )
        self._attempts = AttemptLimiter()
        key = service.config.api_key
        self._key = None if key is None else key.get_secret_value().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        service = self.service
        limit = service.body_limit_bytes(scope["path"])
        exchange = HttpExchange(scope, receive, send, max_body_bytes=limit)
        path = "unknown"
        exchange.shape_error = _ERROR_SHAPES.get(exchange.path)
        try:
            self._check_caller(scope)
            endpoint = _find_endpoint(exchange)
            path = exchange.path if exchange.path in _ROUTES else "/v1/models/{name}"
            if path in _TRACED:
                exchange.traced = tracing.start_request_trace(service.tracing, exchange.caller)
            raw = await exchange.read_body()
            watch = exchange.watch_disconnect()
            try:
                await endpoint(service, exchange, raw)
            except asyncio.CancelledError:
                if watch.ended_by is None and not is_server_stopping(scope):
                    raise
                watch.uncancel()
                if watch.ended_by is None:
                    raise ServerStoppingError from None
            finally:
                watch.stop_watching()
        except ClientDisconnectedError:
            pass
        except HttpError as error:
            await _send_error(exchange, error)
        except TemplateError as error:
            await _send_error(exchange, BadBodyError(str(error), param=error.param, code=error.code))
        except EngineError as error:
            await _send_error(exchange, to_http_error(error))
        except RecursionError:  # some levels short of what the decoder refuses, but too deep for what follows
            await _send_error(exchange, BadBodyError("the body is nested too deeply", code="invalid_json"))
        except Exception as error:
            log.exception("%s %s failed unexpectedly", exchange.method, exchange.path)
            message = f"internal error ({type(error).__name__}); the server's log has more"
            await _send_error(exchange, HttpError(message))
        if log.isEnabledFor(logging.DEBUG):
            fields = {"request": exchange.request_id, "path": path, "status": exchange.status}
            log_fields(log, logging.DEBUG, "request", fields)
        if exchange.traced is not None and service.tracing is not None:
            tracing.finish_request_trace(service.tracing, exchange.traced, exchange, path, service.names[0])
        service.metrics.responses.labels(path, str(exchange.status)).inc()

    def _check_caller(self, scope: Scope) -> None:
        """Raise HttpError for a request that a page of another site may have sent (403), and for one without
        the configured key (401, or 429 after many)."""
        self._origins.check_site(scope)
        path: str = scope["path"]
        if path in _FOR_PROBES:
            return
        if self._key is None:
            self._origins.check_host(scope)
        elif path != "/metrics" and not _has_api_key(self._key, scope):
            if any(name in (b"authorization", b"x-api-key") for name, _ in scope["headers"]):
                self._attempts.count_wrong_key(scope)
            message = "this engine needs its key: `Authorization: Bearer KEY` or `x-api-key: KEY`"
            raise HttpError(message, status=401, code="invalid_api_key")


def _has_api_key(key: bytes, scope: Scope) -> bool:
    headers = dict(scope["headers"])
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), key):
        return True
    return hmac.compare_digest(headers.get(b"x-api-key", b""), key)  # Anthropic's clients


async def _send_error(exchange: HttpExchange, error: HttpError) -> None:
    is_update = exchange.path.startswith("/update_weight")
    await exchange.send_error(weight_update_error(error) if is_update else error)


def _find_endpoint(exchange: HttpExchange) -> EndpointHandler:
    methods = _ROUTES.get(exchange.path)
    if methods is None and exchange.path.startswith("/v1/models/"):
        methods = _MODEL_ROUTE
    if methods is None:
        raise HttpError(f"there is nothing at {exchange.path}", status=404, code="not_found")
    if exchange.method not in methods:
        raise MethodNotAllowedError(exchange.path, exchange.method, ", ".join(methods))
    return methods[exchange.method]
