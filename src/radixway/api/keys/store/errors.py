"""Errors of calls about keys, users and teams."""

from radixway.core.pipeline import GatewayError


class RecordNotFoundError(GatewayError):
    """There is no such key, user or team."""

    status = 404
    code = "not_found"


class RecordConflictError(GatewayError):
    """The name, or the key itself, is taken."""

    status = 409
    code = "conflict"


class AccessUnavailableError(GatewayError):
    """The database of keys does not answer; keys that are known work on."""

    status = 503
    quotes = False
    code = "keys_unavailable"
    retry_after_s = 2
