"""Errors of chats, with texts that are meant for the client."""

from __future__ import annotations


class ChatError(Exception):
    """It cannot be done; the text says why."""


class ChatNotFoundError(ChatError):
    """There is no such thing, or it belongs to somebody else."""


class ChatRefusedError(ChatError):
    """It may not be done with this message or chat."""


class IdempotencyKeyReusedError(ChatRefusedError):
    """An Idempotency-Key was given with another call before."""

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another call")


class ChatQueueFullError(ChatError):
    """Too many messages wait already."""


class ChatBusyError(ChatQueueFullError):
    """The chat is being answered, and nothing else is to be asked in it meanwhile."""


class ChatLimitExceededError(ChatError):
    """Somebody asks for more than their share."""

    def __init__(self, text: str, *, retry_after_s: float = 1.0) -> None:
        """`retry_after_s`: when asking again may help."""
        super().__init__(text)
        self.retry_after_s = retry_after_s


class ChatTooLargeError(ChatError):
    """A message, or a chat, is longer than may be."""


class NestingTooDeepError(ChatError):
    """A body can be read one level deeper than it can be written."""

    def __init__(self) -> None:
        super().__init__("the body is nested too deeply")


class InvalidFieldError(ChatError):
    """A field of a request has a value that cannot be."""

    def __init__(self, field: str, text: str, *, status: int = 422) -> None:
        """`status`: of HTTP."""
        super().__init__(text)
        self.field = field
        self.status = status
