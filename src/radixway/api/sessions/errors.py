"""Errors of sessions, for clients."""

from radixway.core.pipeline import GatewayError


class SessionNotFoundError(GatewayError):
    """No session has that id."""

    status = 404
    code = "session_not_found"
    param = "session_id"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {session_id!r}")


class SessionConflictError(GatewayError):
    """The session is not in a state for that; the code says which."""

    status = 409


class SessionLimitError(GatewayError):
    """Too many sessions exist, or the store is full of sessions that wait to be collected."""

    status = 429
    retry_after_s = 30


class SessionArchiveError(GatewayError):
    """The sessions' file cannot be read or written."""

    status = 503
    code = "archive_failed"


class WorkerRefusedError(GatewayError):
    """A worker refused the request, or answered something that cannot be understood."""

    code = "worker_refused"
