"""Checks jobs against the published protocol: a published worker closes its connection at a frame that it
cannot read, and every answer in flight ends with it.

The classes are the published ones. Fields that they do not name are sent, and not read.
"""

from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")


class _ModelConfig(Struct):
    model_id: str
    max_input_length: int = 512
    max_total_length: int = 1024
    quantized: bool = False


class _SamplingParameters(Struct):
    top_k: int | None = None
    top_p: float | None = None
    typical_p: float | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int = 1024


class _PluginApi(Struct):
    type: str
    url: str
    has_user_authentication: bool | None = False
    is_user_authenticated: bool | None = False


class _PluginAuth(Struct):
    type: str


class _PluginParameter(Struct):
    name: str
    in_: str
    description: str
    required: bool
    schema_: Any = None


class _PluginEndpoint(Struct):
    path: str
    type: str
    summary: str
    operation_id: str
    url: str
    params: list[_PluginParameter]
    payload: dict[str, Any] | None = None


class _PluginConfig(Struct):
    schema_version: str
    name_for_model: str
    name_for_human: str
    description_for_human: str
    description_for_model: str
    api: _PluginApi
    auth: _PluginAuth
    logo_url: str | None = None
    contact_email: str | None = None
    legal_info_url: str | None = None
    endpoints: list[_PluginEndpoint] | None = None


class _PluginEntry(Struct):
    url: str
    enabled: bool = True
    plugin_config: _PluginConfig | None = None
    trusted: bool | None = False


class _WorkParameters(Struct):
    model_config: _ModelConfig
    sampling_parameters: _SamplingParameters | None = None
    do_sample: bool = True
    seed: int | None = None
    system_prompt: str | None = None
    user_profile: str | None = None
    user_response_instructions: str | None = None
    plugins: list[_PluginEntry] = []
    plugin_max_depth: int = 4


class _PluginExecution(Struct):
    inner_monologue: list[str]
    final_tool_output: str
    final_prompt: str
    final_generation_assisted: bool
    status: Literal["success", "failure"]
    achieved_depth: int | None = None
    error_message: str | None = None


class _PluginUsed(Struct):
    execution_details: _PluginExecution
    name: str | None = None
    url: str | None = None
    trusted: bool | None = None


class _Message(Struct):
    id: str
    chat_id: str
    created_at: str
    role: Literal["prompter", "assistant"]
    state: str
    score: int
    content: str
    """Text content: the published class allows null, and the published worker does not."""
    parent_id: str | None = None
    reports: list[Any] = []
    work_parameters: _WorkParameters | None = None
    safe_content: str | None = None
    safety_level: int | None = None
    safety_label: str | None = None
    safety_rots: str | None = None
    used_plugin: _PluginUsed | None = None


class _Thread(Struct):
    messages: list[_Message]


class _SafetyParameters(Struct):
    level: int = 0


class _Work(Struct):
    thread: _Thread
    created_at: str
    parameters: _WorkParameters
    safety_parameters: _SafetyParameters


class UnreadableWorkError(Exception):
    """A job that no published worker can read; the text says which field, and nothing of its value."""


def to_readable_work(work: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `WorkRequest` as every published worker can read them.

    What users and workers may have written into optional fields (a plugin's manifest, what a plugin did) is
    null where it does not have the published shape. Raises UnreadableWorkError.
    """
    messages = [
        message
        | {
            "work_parameters": _valid_or_none(message["work_parameters"], _WorkParameters),
            "used_plugin": _valid_or_none(message["used_plugin"], _PluginUsed),
        }
        for message in work["thread"]["messages"]
    ]
    parameters = work["parameters"]
    if parameters.get("plugins"):
        plugins = [
            entry | {"plugin_config": _valid_or_none(entry.get("plugin_config"), _PluginConfig)}
            for entry in parameters["plugins"]
        ]
        parameters = parameters | {"plugins": plugins}
    work = work | {"thread": {"messages": messages}, "parameters": parameters}
    try:
        msgspec.convert(work, _Work)
    except msgspec.ValidationError as error:
        raise UnreadableWorkError(f"a worker that fetches jobs cannot read this request: {error}") from None
    return work


def _valid_or_none(value: T | None, shape: type[Struct]) -> T | None:
    if value is None:
        return None
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return None
    return value
