"""Ids in the order of creation, hashes of secrets, and digests of requests."""

import hashlib
import json
from typing import Any

import uuid6

from radixway.chat.errors import NestingTooDeepError


def new_id() -> str:
    """A UUID, version 7: ids that one process makes sort by time."""
    return str(uuid6.uuid7())


def hash_secret(secret: str) -> str:
    """Return 64 hex digits by which the database finds `secret` again.

    Ours have 256 random bits: nobody guesses what a plain hash is of, as they would with a password.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def digest_request(call: str, *values: Any) -> str:
    """Return 64 hex digits that are the same for the same `call` with the same JSON `values`, in any order of
    their fields. Raises NestingTooDeepError."""
    try:
        text = json.dumps([call, *values], sort_keys=True)
    except RecursionError:
        raise NestingTooDeepError from None
    return hashlib.sha256(text.encode()).hexdigest()
