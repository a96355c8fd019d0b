"""Fixtures of several files here."""

from support.chat_stores import chat_stores, postgres, valkey

__all__ = ["chat_stores", "postgres", "valkey"]
