"""The two wire protocols of pull workers: the published one, and the one that its overview describes."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from radixway.chat.answer_attempt import AnswerAttempt
from radixway.chat.ids import new_id
from radixway.chat.model_configs import ServedModelConfig
from radixway.chat.published_shapes import format_time, to_message_read
from radixway.chat.pull.frames import (
    UNREADABLE,
    AnyWorkerFrame,
    ErrorFrame,
    FrameExtensions,
    GeneratedTextFrame,
    InvalidFrameError,
    ModelShape,
    PongFrame,
    TokenFrame,
    WorkerInfo,
    WorkerMetrics,
    encode_server_frame,
    explain_frame_error,
    find_request_id,
    read_frame,
    read_info,
)
from radixway.chat.pull.published_work import to_readable_work

_encode = msgspec.json.encode

FindModel = Callable[[str], ServedModelConfig | None]


class WorkerDialect:
    """Reads and writes frames: on `/workers/work`, as the published service and its workers speak."""

    def read_info(self, raw: str | bytes, find: FindModel) -> WorkerInfo:
        """Parse the first frame, `raw`. `find` looks models up by name. Raises InvalidFrameError."""
        return read_info(raw)

    def read_frames(self, raw: str | bytes) -> list[AnyWorkerFrame]:
        """Parse any later frame, `raw`. Raises InvalidFrameError."""
        return [read_frame(raw)]

    def encode_work(self, attempt: AnswerAttempt, now: float, safety_level: int) -> bytes:
        """Encode the job of `attempt`. Raises UnreadableWorkError."""
        return encode_server_frame(attempt.job.attempt_id, "work", **_work_fields(attempt, now, safety_level))

    def encode_welcome(self, info: WorkerInfo, worker_id: str, compat_hash: str) -> bytes | None:
        """Encode the reply to `info`; None: nothing is sent.

        Only workers that named an extension get one: others close at a frame that they do not know.
        """
        known = _known_extensions(info)
        return encode_server_frame(new_id(), "extensions", extensions=known) if known else None

    def encode_ping(self) -> bytes | None:
        """Encode the frame for a worker that has been silent for a while; None: it reports by itself."""
        return encode_server_frame(new_id(), "ping")

    def encode_pong(self, metrics: WorkerMetrics | None) -> bytes | None:
        """Encode the reply to a sign of life that came with `metrics`; None: nothing is sent."""
        return None


class _OverviewConfig(Struct):
    """A model configuration as loosely as the overview writes it: a name, or with lengths."""

    model_config: ModelShape | None = None
    model_config_name: str | None = None
    name: str | None = None
    model_id: str | None = None
    max_input_length: int | None = None
    max_total_tokens: int | None = None
    max_total_length: int | None = None
    quantize: str | None = None
    max_parallel_requests: int | None = None
    max_parallel: int | None = None


class _OverviewInfo(Struct):
    config: _OverviewConfig
    hardware: Any = None
    hardware_info: Any = None
    extensions: FrameExtensions = []


class _OverviewFrame(Struct):
    """Any frame of a worker; without `type` its fields tell which."""

    type: str | None = None
    request_id: str | None = None
    token: str | None = None
    is_end: bool = False
    error: str | None = None
    text: str | None = None
    metrics: WorkerMetrics | None = None
    response_type: str | None = None


_infos = msgspec.json.Decoder(_OverviewInfo)
_frames = msgspec.json.Decoder(_OverviewFrame)


class OverviewDialect(WorkerDialect):
    """`/work`: registration is acknowledged, workers send heartbeats, tokens are `TokenResponse`s."""

    def read_info(self, raw: str | bytes, find: FindModel) -> WorkerInfo:
        """Parse the first frame, `raw`; `find` looks up a model that it gives by name alone."""
        try:
            info = _infos.decode(raw)
            config = info.config
            shape = _model_shape(config, find)
            at_once = config.max_parallel_requests or config.max_parallel or 1
            hardware = info.hardware if info.hardware_info is None else info.hardware_info
            serves = {"model_config": shape, "max_parallel_requests": at_once}
            fields = {"config": serves, "hardware_info": hardware, "extensions": info.extensions}
            return msgspec.convert(fields, WorkerInfo)
        except UNREADABLE as error:
            raise InvalidFrameError(explain_frame_error(error)) from None

    def read_frames(self, raw: str | bytes) -> list[AnyWorkerFrame]:
        """Parse any later frame, `raw`, of this protocol or the published one."""
        try:
            frame = _frames.decode(raw)
        except UNREADABLE as error:
            raise InvalidFrameError(explain_frame_error(error), find_request_id(raw)) from None
        if frame.response_type is not None:
            return [read_frame(raw)]
        request_id = frame.request_id
        if frame.type == "HeartbeatRequest" or request_id is None:
            return [PongFrame(request_id, metrics=frame.metrics)]
        if frame.error is not None:
            return [ErrorFrame(request_id, error=frame.error)]
        if frame.text is not None:
            return [GeneratedTextFrame(request_id, text=frame.text, metrics=frame.metrics)]
        tokens: list[AnyWorkerFrame] = [TokenFrame(request_id, text=frame.token)] if frame.token else []
        return [*tokens, GeneratedTextFrame(request_id)] if frame.is_end else tokens

    def encode_work(self, attempt: AnswerAttempt, now: float, safety_level: int) -> bytes:
        """Encode the job of `attempt` as a `WorkRequest`. Raises UnreadableWorkError."""
        work = _work_fields(attempt, now, safety_level)
        work["parameters"] = {**work["parameters"], "model_config_name": attempt.answer.model}
        return _encode({"type": "WorkRequest", "id": attempt.job.attempt_id, "request_type": "work", **work})

    def encode_welcome(self, info: WorkerInfo, worker_id: str, compat_hash: str) -> bytes | None:
        """Acknowledge the registration of `worker_id`."""
        return _encode(
            {
                "type": "RegistrationResponse",
                "registered": True,
                "worker_id": worker_id,
                "compat_hash": compat_hash,
                "extensions": _known_extensions(info),
            }
        )

    def encode_ping(self) -> bytes | None:
        """Send no pings: these workers send heartbeats."""
        return None

    def encode_pong(self, metrics: WorkerMetrics | None) -> bytes | None:
        """Answer a heartbeat; its `metrics` change nothing."""
        return _encode({"type": "HeartbeatResponse"})


def _known_extensions(info: WorkerInfo) -> list[str]:
    return [name for name in info.extensions if name in ("cancel", "drain")]


def _model_shape(config: _OverviewConfig, find: FindModel) -> dict[str, Any]:
    if config.model_config is not None:
        return msgspec.structs.asdict(config.model_config)
    total = config.max_total_length or config.max_total_tokens
    if config.model_id and config.max_input_length and total:
        lengths = {"max_input_length": config.max_input_length, "max_total_length": total}
        return {"model_id": config.model_id, **lengths, "quantized": config.quantize is not None}
    name = config.model_config_name or config.name or config.model_id
    if name is None:
        raise InvalidFrameError("Object missing required field `model_config` - at `$.config`")
    known = find(name)
    if known is None:
        raise InvalidFrameError("no configured model has the name of `$.config`, and its lengths are missing")
    return known.to_shape()


def _work_fields(attempt: AnswerAttempt, now: float, safety_level: int) -> dict[str, Any]:
    return to_readable_work(
        {
            "thread": {"messages": [to_message_read(message) for message in attempt.build_worker_thread()]},
            "created_at": format_time(now),
            "parameters": _work_parameters(attempt),
            "safety_parameters": {"level": safety_level},
        }
    )


def _work_parameters(attempt: AnswerAttempt) -> dict[str, Any]:
    """Return the parameters without plugins that only the gateway can use: workers fetch manifests, MCP
    servers have none."""
    parameters = attempt.answer.work_parameters or {}
    plugins = parameters.get("plugins")
    if not plugins:
        return parameters
    return parameters | {"plugins": [plugin for plugin in plugins if not plugin["url"].startswith("mcp:")]}


PUBLISHED = WorkerDialect()
OVERVIEW = OverviewDialect()
