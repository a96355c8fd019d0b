"""Rows of the chats' tables as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row


class Role(StrEnum):
    """The author of a message."""

    PROMPTER = "prompter"
    ASSISTANT = "assistant"


class MessageState(StrEnum):
    """The state of a message."""

    MANUAL = "manual"
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    ABORTED_BY_WORKER = "aborted_by_worker"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_final(self) -> bool:
        """True once the message can no longer change by itself."""
        return self not in (MessageState.PENDING, MessageState.IN_PROGRESS)


class UserRole(StrEnum):
    """The rights of a user."""

    USER = "user"
    ADMIN = "admin"
    """Role with the root token's rights."""


OF_TENANTS = "tenant"
"""The provider of users whom the keys of the section `tenants` name."""


@dataclass(frozen=True, slots=True)
class User:
    """A user."""

    id: str
    tenant: str
    provider: str
    provider_account_id: str
    display_name: str
    role: str
    created_at: float
    deleted: bool

    @property
    def gateway_user(self) -> str:
        """The user's name elsewhere in the gateway: the one of the tenant's key, or the id."""
        return (self.provider == OF_TENANTS and self.provider_account_id) or self.id


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat, without its messages."""

    id: str
    user_id: str
    created_at: float
    modified_at: float
    title: str | None
    hidden: bool
    archived: bool
    allow_data_use: bool
    active_thread_tail_message_id: str | None
    titled_by: str | None = None
    """`user`, `model`; None: by its first words, or not at all."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a chat; its parents form its thread."""

    id: str
    chat_id: str
    parent_id: str | None
    role: Role
    state: MessageState
    content: str | None
    error: str | None
    created_at: float
    score: int
    work_parameters: dict[str, Any] | None
    model: str | None
    worker_id: str | None
    worker_config: dict[str, Any] | None
    work_begin_at: float | None
    first_token_at: float | None
    work_end_at: float | None
    usage: dict[str, Any] | None
    finish_reason: str | None
    """Why the answer ended there: `stop`, `length` …; None: its worker did not say."""
    used_plugin: dict[str, Any] | None
    safe_content: str | None
    safety_level: int | None
    safety_label: str | None
    safety_rots: str | None
    idempotency_key: str | None
    request_digest: str | None
    """Digest of the call with that key; None without one, or from before digests were stored."""
    version: int
    """Raised by the database with every change; a returned change has the version before it."""

    @classmethod
    def of_row(cls, row: Row[Any]) -> Message:
        """Return the message in `row`, which has all columns of the table `messages`."""
        fields = dict(row._mapping)
        return cls(**fields | {"role": Role(fields["role"]), "state": MessageState(fields["state"])})


@dataclass(frozen=True, slots=True)
class MessageReport:
    """A user's report of a message."""

    id: str
    message_id: str
    report_type: str
    reason: str
    created_at: float


@dataclass(frozen=True, slots=True)
class PullWorkerRecord:
    """A worker that may fetch jobs."""

    id: str
    name: str
    trusted: bool
    created_at: float


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """The job of answering one message, as its holder sees it."""

    message_id: str
    user_id: str
    queue: str
    attempts: int
    attempt_id: str
    """Id of this attempt; messages under another id are too late."""
    lease_until: float
    last_error: str | None
    """Why the attempt before this one failed."""
    chat_id: str
    key_id: str | None = None
    """The key made at run time that it was asked for by: it pays."""
