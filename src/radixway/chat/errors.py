"""Errors of chats, with texts for the client."""


class ChatError(Exception):
    """The call cannot be done; the text says why."""


class ChatNotFoundError(ChatError):
    """The object does not exist, or belongs to another user."""


class ChatRefusedError(ChatError):
    """This message or chat does not allow it."""


class IdempotencyKeyReusedError(ChatRefusedError):
    """An Idempotency-Key was used for another call before."""

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another call")


class ChatQueueFullError(ChatError):
    """Too many messages wait already."""


class ChatBusyError(ChatQueueFullError):
    """The chat is being answered and takes no further question meanwhile."""


class ChatLimitExceededError(ChatError):
    """A user's limit is exceeded."""

    def __init__(self, text: str, *, retry_after_s: float = 1.0) -> None:
        """`retry_after_s`: when asking again may help."""
        super().__init__(text)
        self.retry_after_s = retry_after_s


class ChatTooLargeError(ChatError):
    """A message or a chat exceeds its limit."""


class NestingTooDeepError(ChatError):
    """A body can be read one level deeper than it can be written."""

    def __init__(self) -> None:
        super().__init__("the body is nested too deeply")


class InvalidFieldError(ChatError):
    """A field of a request has an invalid value."""

    def __init__(self, field: str, text: str, *, status: int = 422) -> None:
        """`status`: of HTTP."""
        super().__init__(text)
        self.field = field
        self.status = status
