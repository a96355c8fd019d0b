"""Two ways to say the same: the published protocol, and the one that its overview describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from radixway.chat.attempt import Attempt
from radixway.chat.ids import new_id
from radixway.chat.model_configs import ModelConfig
from radixway.chat.pull.frames import (
    UNREADABLE,
    BadFrame,
    Extensions,
    Failed,
    Frame,
    GeneratedText,
    Metrics,
    ModelShape,
    Pong,
    Token,
    WorkerInfo,
    read_frame,
    read_info,
    to_worker,
    whose,
    why,
)
from radixway.chat.pull.work import readable_work
from radixway.chat.shapes import message_read, when

_encode = msgspec.json.encode

FindModel = Callable[[str], ModelConfig | None]
"""A configured model by its name."""


class Dialect(Protocol):
    """How frames are written and read."""

    def read_info(self, raw: str | bytes, find: FindModel) -> WorkerInfo:
        """The first frame. Raises BadFrame."""
        ...

    def read(self, raw: str | bytes) -> list[Frame]:
        """Any other. Raises BadFrame."""
        ...

    def work(self, attempt: Attempt, now: float, safety_level: int) -> bytes:
        """A job. Raises UnreadableWork."""
        ...

    def welcome(self, info: WorkerInfo, worker_id: str, compat_hash: str) -> bytes | None:
        """After the first frame; None: nothing is said."""
        ...

    def ping(self) -> bytes | None:
        """To a worker that has been silent for a while; None: it comes by itself."""
        ...

    def pong(self, metrics: Metrics | None) -> bytes | None:
        """To a sign of life; None: nothing is said."""
        ...


class Published:
    """`/workers/work`, as the published service and its workers really speak."""

    def read_info(self, raw: str | bytes, find: FindModel) -> WorkerInfo:
        """See `Dialect`."""
        return read_info(raw)

    def read(self, raw: str | bytes) -> list[Frame]:
        """See `Dialect`."""
        return [read_frame(raw)]

    def work(self, attempt: Attempt, now: float, safety_level: int) -> bytes:
        """See `Dialect`."""
        return to_worker(attempt.job.attempt_id, "work", **_work(attempt, now, safety_level))

    def welcome(self, info: WorkerInfo, worker_id: str, compat_hash: str) -> bytes | None:
        """Only to those that named an extension: others end at a frame that they do not know."""
        known = [name for name in info.extensions if name in ("cancel", "drain")]
        return to_worker(new_id(), "extensions", extensions=known) if known else None

    def ping(self) -> bytes | None:
        """See `Dialect`."""
        return to_worker(new_id(), "ping")

    def pong(self, metrics: Metrics | None) -> bytes | None:
        """See `Dialect`."""
        return None


class _OverviewConfig(Struct):
    """As loosely as the overview puts it: by name, or with lengths."""

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
    extensions: Extensions = []


class _OverviewFrame(Struct):
    """Any frame of a worker; which one it is, its fields tell where `type` does not."""

    type: str | None = None
    request_id: str | None = None
    token: str | None = None
    is_end: bool = False
    error: str | None = None
    text: str | None = None
    metrics: Metrics | None = None
    response_type: str | None = None


_infos = msgspec.json.Decoder(_OverviewInfo)
_frames = msgspec.json.Decoder(_OverviewFrame)


class Overview:
    """`/work`: registration is acknowledged, workers send heartbeats, tokens are `TokenResponse`s."""

    def read_info(self, raw: str | bytes, find: FindModel) -> WorkerInfo:
        """See `Dialect`. A model may be told by its name alone."""
        try:
            info = _infos.decode(raw)
            config = info.config
            shape = _shape(config, find)
            at_once = config.max_parallel_requests or config.max_parallel or 1
            hardware = info.hardware if info.hardware_info is None else info.hardware_info
            serves = {"model_config": shape, "max_parallel_requests": at_once}
            told = {"config": serves, "hardware_info": hardware, "extensions": info.extensions}
            return msgspec.convert(told, WorkerInfo)
        except UNREADABLE as error:
            raise BadFrame(why(error)) from None

    def read(self, raw: str | bytes) -> list[Frame]:
        """See `Dialect`. Frames of the published protocol are understood, too."""
        try:
            frame = _frames.decode(raw)
        except UNREADABLE as error:
            raise BadFrame(why(error), whose(raw)) from None
        if frame.response_type is not None:
            return [read_frame(raw)]
        request_id = frame.request_id
        if frame.type == "HeartbeatRequest" or request_id is None:
            return [Pong(request_id, metrics=frame.metrics)]
        if frame.error is not None:
            return [Failed(request_id, error=frame.error)]
        if frame.text is not None:
            return [GeneratedText(request_id, text=frame.text, metrics=frame.metrics)]
        said: list[Frame] = [Token(request_id, text=frame.token)] if frame.token else []
        return [*said, GeneratedText(request_id)] if frame.is_end else said

    def work(self, attempt: Attempt, now: float, safety_level: int) -> bytes:
        """See `Dialect`."""
        work = _work(attempt, now, safety_level)
        work["parameters"] = {**work["parameters"], "model_config_name": attempt.answer.model}
        return _encode({"type": "WorkRequest", "id": attempt.job.attempt_id, "request_type": "work", **work})

    def welcome(self, info: WorkerInfo, worker_id: str, compat_hash: str) -> bytes | None:
        """See `Dialect`."""
        return _encode(
            {
                "type": "RegistrationResponse",
                "registered": True,
                "worker_id": worker_id,
                "compat_hash": compat_hash,
                "extensions": [name for name in info.extensions if name in ("cancel", "drain")],
            }
        )

    def ping(self) -> bytes | None:
        """See `Dialect`."""
        return None

    def pong(self, metrics: Metrics | None) -> bytes | None:
        """See `Dialect`."""
        return _encode({"type": "HeartbeatResponse"})


def _shape(config: _OverviewConfig, find: FindModel) -> dict[str, Any]:
    """Still to be checked."""
    if config.model_config is not None:
        return msgspec.structs.asdict(config.model_config)
    total = config.max_total_length or config.max_total_tokens
    if config.model_id and config.max_input_length and total:
        lengths = {"max_input_length": config.max_input_length, "max_total_length": total}
        return {"model_id": config.model_id, **lengths, "quantized": config.quantize is not None}
    name = config.model_config_name or config.name or config.model_id
    if name is None:
        raise BadFrame("Object missing required field `model_config` - at `$.config`")
    known = find(name)
    if known is None:
        raise BadFrame("no configured model has the name of `$.config`, and its lengths are not told")
    lengths = {"max_input_length": known.max_input_length, "max_total_length": known.max_total_length}
    return {"model_id": known.model_id, **lengths, "quantized": known.quantized}


def _work(attempt: Attempt, now: float, safety_level: int) -> dict[str, Any]:
    """Raises UnreadableWork."""
    return readable_work(
        {
            "thread": {"messages": [message_read(message) for message in attempt.build_worker_thread()]},
            "created_at": when(now),
            "parameters": _parameters(attempt),
            "safety_parameters": {"level": safety_level},
        }
    )


def _parameters(attempt: Attempt) -> dict[str, Any]:
    """Without plugins that the gateway alone can use: workers fetch manifests, and MCP servers have none."""
    parameters = attempt.answer.work_parameters or {}
    plugins = parameters.get("plugins")
    if not plugins:
        return parameters
    return parameters | {"plugins": [each for each in plugins if not each["url"].startswith("mcp:")]}


PUBLISHED = Published()
OVERVIEW = Overview()
