"""Request bodies of `/v1/chats`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from radixway.api.chats.messages import PluginEntry, SamplingParameters
from radixway.chat.messages import WhileBusy
from radixway.core.config.chat import Level

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

    def given_fields(self) -> dict[str, Any]:
        """Return the fields that were named and are not null."""
        return {name: value for name, value in self.model_dump().items() if value is not None}


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
    """Where the chat is being answered: refuse this, end that, or wait one's turn. Default: the server's."""
    reply: Literal["whole", "stream", "later"] = "whole"
    """When the answer is there, as server-sent events as it comes, or at once with a pending answer."""

    def given_parameters(self) -> dict[str, Any]:
        """Return the parameters of the answer that were named."""
        return self.model_dump(include=_PARAMETERS, exclude_none=True)


class NewMessage(AnswerOptions):
    """A user's message."""

    content: _Text
    parent_id: _Id | None = None
    """An answer of this chat; default: the end of the thread that is open."""
    answer: bool = True
    """Whether it is to be answered."""


class EditedMessage(AnswerOptions):
    """Other words for a user's message."""

    content: _Text
    answer: bool = True


class NewShareLink(StrictRequestBody):
    """A thread to be shared."""

    message_id: _Id | None = None
    """The last message that is; default: the end of the thread that is open."""
    expires_in_s: Annotated[float, Field(gt=0, le=10 * 365 * 86400)] | None = None
    """Default: never."""
