"""Request bodies of chats: text and numbers that a database and JSON can hold."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from radixway.chat.feedback import ReportType
from radixway.chat.messages import WhileBusy
from radixway.core.config.chat import Level


class LenientRequestBody(BaseModel):
    """A body, or a part of one. Unknown fields are passed over, as published."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _check_storable(cls, value: Any) -> Any:
        """Reject what cannot be stored: U+0000 (PostgreSQL), lone surrogates, NaN."""
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                _check_text(item)
        if isinstance(value, dict):
            try:
                json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
            except (ValueError, RecursionError):
                raise ValueError("this cannot be written as JSON") from None
        return value


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ValueError("text cannot hold U+0000")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("text cannot hold lone surrogates")


_Share = Annotated[float, Field(ge=0, le=1)] | None


class PrompterMessage(LenientRequestBody):
    """A user's message."""

    parent_id: str | None = Field(default=None, max_length=64)
    content: str = Field(min_length=1)


class SamplingParameters(LenientRequestBody):
    """Parameters of sampling."""

    top_k: int | None = Field(default=None, ge=-1, lt=2**31)
    top_p: _Share = None
    typical_p: _Share = None
    temperature: float | None = Field(default=None, ge=0)
    repetition_penalty: float | None = Field(default=None, gt=0)
    max_new_tokens: int = Field(default=1024, ge=1, lt=2**31)


class PluginEntry(LenientRequestBody):
    """A plugin that may be used."""

    url: str = Field(max_length=2048)
    enabled: bool = True
    plugin_config: dict[str, Any] | None = None
    trusted: bool | None = False


class AssistantMessage(LenientRequestBody):
    """A request for an answer."""

    parent_id: str = Field(max_length=64)
    model_config_name: str = Field(max_length=256)
    sampling_parameters: SamplingParameters = SamplingParameters()
    system_prompt: str | None = None
    user_profile: str | None = None
    user_response_instructions: str | None = None
    plugins: list[PluginEntry] = Field(default=[], max_length=32)
    used_plugin: Any = None
    safety_level: Level | None = None
    """More than what is configured; less counts for nothing."""


class MessageVote(LenientRequestBody):
    """-1, 0 or 1."""

    score: int = Field(ge=-1, le=1)


class NewMessageReport(LenientRequestBody):
    """A complaint about a message."""

    report_type: ReportType
    reason: str = Field(max_length=10_000)


class DraftEvaluation(LenientRequestBody):
    """The drafts that this one is better than."""

    inferior_message_ids: list[str] = Field(max_length=1000)


class ChatUpdate(LenientRequestBody):
    """Changes to a chat."""

    title: str | None = Field(default=None, max_length=100)
    hidden: bool | None = None
    allow_data_use: bool | None = None
    active_thread_tail_message_id: str | None = Field(default=None, max_length=64)


class NewPullWorker(LenientRequestBody):
    """A pull worker to be registered."""

    name: str = Field(min_length=1, max_length=256)
    trusted: bool = False


_Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00]*$")]
_Text = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
_Tag = Annotated[str, Field(min_length=1, max_length=50, pattern=r"^[^\x00]*$")]
_PARAMETERS = {
    "sampling_parameters",
    "system_prompt",
    "user_profile",
    "user_response_instructions",
    "plugins",
    "safety_level",
}


class StrictRequestBody(BaseModel):
    """Unknown fields are refused: a misspelt one is not to be overlooked."""

    model_config = ConfigDict(extra="forbid")


class ChatFields(StrictRequestBody):
    """The fields of a chat that a client may set."""

    title: Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")] | None = None
    archived: bool | None = None
    hidden: bool | None = None
    allow_data_use: bool | None = None
    tags: Annotated[list[_Tag], Field(max_length=50)] | None = None


class ChatChange(ChatFields):
    """A change of a chat; what is not named stays."""

    tail_id: _Id | None = None


class AnswerOptions(StrictRequestBody):
    """Options of an answer. What is not named is as in the answer before."""

    model: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    sampling_parameters: SamplingParameters | None = None
    system_prompt: _Text | None = None
    user_profile: _Text | None = None
    user_response_instructions: _Text | None = None
    plugins: Annotated[list[PluginEntry], Field(max_length=32)] | None = None
    safety_level: Level | None = None
    """More than what is configured for the model; less counts for nothing."""
    while_busy: WhileBusy | None = None
    """What a question does to a chat that is being answered: reject it, interrupt the answer, or wait.
    Default: the server's."""
    reply: Literal["whole", "stream", "later"] = "whole"
    """The whole answer, a stream of events, or at once a pending answer."""

    def given_parameters(self) -> dict[str, Any]:
        """Return the parameters of the answer that were named."""
        return self.model_dump(include=_PARAMETERS, exclude_none=True)


class NewMessage(AnswerOptions):
    """A user's message."""

    content: _Text
    parent_id: _Id | None = None
    """An answer of this chat; default: the end of the thread that is open."""
    answer: bool = True


class EditedMessage(AnswerOptions):
    """Other words for a user's message."""

    content: _Text
    answer: bool = True


class NewShareLink(StrictRequestBody):
    """A thread to be shared."""

    message_id: _Id | None = None
    """The last message that is; default: the end of the thread that is open."""
    expires_in_s: Annotated[float, Field(gt=0, le=10 * 365 * 86400)] | None = None
