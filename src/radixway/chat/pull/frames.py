"""The frames between workers and the server, as JSON text, with the published names.

Unknown fields are ignored, so that workers and servers of different versions understand each other.
"""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from radixway.chat.sanitizer import is_within_size

TokenLimit = Annotated[int, Meta(ge=1, le=2**31)]
_ParallelRequests = Annotated[int, Meta(ge=1, le=4096)]
_Name = Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
"""A model's name: it stands in queues, labels and logs."""
FrameExtensions = Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(max_length=16)]
_MAX_HARDWARE_BYTES = 64 << 10


class ModelShape(Struct):
    """A model as a worker serves it."""

    model_id: _Name
    max_input_length: TokenLimit
    max_total_length: TokenLimit
    quantized: bool = False


class WorkerConfig(Struct):
    """The model that a worker serves, and its parallelism."""

    model_config: ModelShape
    max_parallel_requests: _ParallelRequests = 1


class WorkerInfo(Struct):
    """The first frame of a worker.

    `extensions` is not of the published protocol: a worker is sent frames only of those that it names.
    `cancel`: the server may stop a request's work. `drain`: the worker may ask for no more work.
    """

    config: WorkerConfig
    hardware_info: Any = None
    extensions: FrameExtensions = []

    def __post_init__(self) -> None:
        if not is_within_size(self.hardware_info, _MAX_HARDWARE_BYTES):
            raise ValueError("`hardware_info` is too large or too deep")


class GpuLoad(Struct):
    """The load of a GPU, in per cent."""

    gpu_usage: float | None = None
    mem_usage: float | None = None


class WorkerMetrics(Struct, omit_defaults=True):
    """The metrics that a worker reports: the published fields, then the overview's."""

    created_at: str | None = None
    cpu_usage: float | None = None
    mem_usage: float | None = None
    swap_usage: float | None = None
    gpus: list[GpuLoad] | None = None
    requests_processed: int | None = None
    average_latency: float | None = None
    tokens_per_second: float | None = None
    gpu_utilization: float | None = None
    memory_used: float | None = None
    """MB, of the GPU."""


class WorkerFrame(Struct, tag_field="response_type"):
    """A worker's frame after its first."""

    request_id: str | None = None


class PongFrame(WorkerFrame, tag="pong"):
    """A sign of life."""

    metrics: WorkerMetrics | None = None


class TokenFrame(WorkerFrame, tag="token"):
    """Text of an answer."""

    text: str = ""
    log_prob: float | None = None
    token_id: int | None = None
    tokens: Annotated[int, Meta(ge=0, le=2**20)] = 1
    """How many they are: ours, of workers that send several at once."""


class GeneratedTextFrame(WorkerFrame, tag="generated_text"):
    """The answer is complete."""

    text: str | None = None
    finish_reason: str | None = None
    metrics: WorkerMetrics | None = None
    used_plugin: dict[str, Any] | None = None


class ErrorFrame(WorkerFrame, tag="error"):
    """A request failed."""

    error: str = ""
    metrics: WorkerMetrics | None = None


class GeneralErrorFrame(ErrorFrame, tag="general_error"):
    """The worker failed."""


class SafetyParameters(Struct):
    """The strictness of a worker's own safety."""

    level: Annotated[int, Meta(ge=0, le=9)] = 0


class SafePromptFrame(WorkerFrame, tag="safe_prompt"):
    """The prompt was made safe."""

    safe_prompt: str = ""
    safety_parameters: SafetyParameters = msgspec.field(default_factory=SafetyParameters)
    safety_label: str = ""
    safety_rots: str = ""


class PluginStepFrame(WorkerFrame, tag="plugin_intermediate"):
    """A step of a plugin."""

    text: str = ""
    current_plugin_thought: str = ""
    current_plugin_action_taken: str = ""
    current_plugin_action_input: str = ""
    current_plugin_action_response: str = ""


class DrainFrame(WorkerFrame, tag="drain"):
    """The worker wants no more jobs: an extension."""


AnyWorkerFrame = (
    PongFrame
    | TokenFrame
    | GeneratedTextFrame
    | ErrorFrame
    | GeneralErrorFrame
    | SafePromptFrame
    | PluginStepFrame
    | DrainFrame
)


class InvalidFrameError(Exception):
    """A frame that cannot be read; the text says why."""

    def __init__(self, text: str, request_id: str | None = None) -> None:
        super().__init__(text)
        self.request_id = request_id


class _RequestIdFields(Struct):
    request_id: str


_frames = msgspec.json.Decoder(AnyWorkerFrame)
_infos = msgspec.json.Decoder(WorkerInfo)
_whose = msgspec.json.Decoder(_RequestIdFields)


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of decoders."""
_QUOTED_VALUE = re.compile(r"Invalid (enum )?value .*(?= - at )", re.DOTALL)


def explain_frame_error(error: Exception) -> str:
    """Return what is wrong with a frame by its decoding `error`, without quoting the frame."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return _QUOTED_VALUE.sub("Invalid value", str(error))[:300]


def read_frame(raw: str | bytes) -> AnyWorkerFrame:
    """Decode `raw`. Raises InvalidFrameError."""
    try:
        frame: AnyWorkerFrame = _frames.decode(raw)
        return frame
    except UNREADABLE as error:
        raise InvalidFrameError(explain_frame_error(error), find_request_id(raw)) from None


def find_request_id(raw: str | bytes) -> str | None:
    """Return the request that the frame `raw` is about, if that much can be read."""
    try:
        return _whose.decode(raw).request_id
    except UNREADABLE:
        return None


def read_info(raw: str | bytes) -> WorkerInfo:
    """Decode a first frame, `raw`. Raises InvalidFrameError."""
    try:
        return _infos.decode(raw)
    except UNREADABLE as error:
        raise InvalidFrameError(explain_frame_error(error)) from None


ServerFrameType = Literal["work", "ping", "cancel", "extensions", "upgrade_protocol", "wrong_api_key"]


def encode_server_frame(id: str, request_type: ServerFrameType, **fields: Any) -> bytes:
    """Encode a frame of the server: its `id`, its `request_type` and `fields`."""
    return msgspec.json.encode({"id": id, "request_type": request_type, **fields})
