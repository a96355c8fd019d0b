"""Whose key pays for what is under way."""

from contextvars import ContextVar

asking_key: ContextVar[str | None] = ContextVar("asking_key", default=None)
"""Id of the key, made at run time, that a call came with, or that the answer under way was asked for by."""
