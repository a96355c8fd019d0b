"""Search in the messages of a user and their models.

Whatever contains all words of a query is found, in any language: words need no spaces around them. SQLite
finds them by trigrams (FTS5), PostgreSQL by pairs of characters (GIN); triggers and the index keep both up to
date in the transaction that writes a message. Answers under way are found when they have ended.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import column, func, select, table, text
from sqlalchemy.sql.elements import ColumnElement

from radixway.chat.database import ChatDatabase
from radixway.chat.records import Message, MessageState
from radixway.chat.schema import chats, messages
from radixway.chat.statements import UNDER_WAY

_TRIGRAM = 3
_BEFORE, _AROUND = 40, 160
"""Characters of a snippet: before what was found, and in all."""


@dataclass(frozen=True, slots=True)
class MessageHit:
    """A message that was found."""

    message: Message
    chat_title: str | None
    snippet: str


class MessageSearch:
    """Searches a user's own messages."""

    def __init__(self, database: ChatDatabase) -> None:
        self._database = database

    async def search_messages(
        self, user_id: str, query: str, *, limit: int, before: str | None = None, chat_id: str | None = None
    ) -> list[MessageHit]:
        """Return messages older than `before` that contain every word of `query`, newest first."""
        words = query.split()
        if not words:
            return []
        wanted = (
            select(messages, chats.c.title)
            .join(chats, chats.c.id == messages.c.chat_id)
            .where(chats.c.user_id == user_id, messages.c.content.is_not(None))
            .where(messages.c.state.not_in(UNDER_WAY), *self._containing_words(words))
            .order_by(messages.c.id.desc())
            .limit(limit)
        )
        if before is not None:
            wanted = wanted.where(messages.c.id < before)
        if chat_id is not None:
            wanted = wanted.where(chats.c.id == chat_id)
        hits = []
        for row in await self._database.fetch_all(wanted):
            fields = dict(row._mapping)
            title = fields.pop("title")
            fields |= {"state": MessageState(fields["state"])}
            message = Message(**fields)
            hits.append(MessageHit(message, title, _cut_snippet(message.content or "", words[0])))
        return hits

    def _containing_words(self, words: list[str]) -> list[ColumnElement[bool]]:
        if not self._database.is_sqlite:
            grams = [
                func.radixway_grams(messages.c.content).op("@>")(func.radixway_grams(word)) for word in words
            ]
            return [*grams, *(_contains_word(func.lower(messages.c.content), word.lower()) for word in words)]
        short = [_contains_word(messages.c.content, word) for word in words if len(word) < _TRIGRAM]
        long = [word for word in words if len(word) >= _TRIGRAM]
        return [*short, _fts_match(long)] if long else short


def _fts_match(words: list[str]) -> ColumnElement[bool]:
    """Return FTS5's query: each word as a quoted string."""
    rows = table("search_rows", column("number"), column("message_id"))
    index = table("message_search", column("rowid"))
    query = " AND ".join('"' + word.replace('"', '""') + '"' for word in words)
    found = select(index.c.rowid).where(text("message_search MATCH :query").bindparams(query=query))
    return messages.c.id.in_(select(rows.c.message_id).where(rows.c.number.in_(found)))


def _contains_word(where: Any, word: str) -> ColumnElement[bool]:
    contains: ColumnElement[bool] = where.contains(word, autoescape=True)
    return contains


def _cut_snippet(content: str, word: str) -> str:
    at = max(content.lower().find(word.lower()), 0)
    begin = max(0, at - _BEFORE)
    cut = " ".join(content[begin : begin + _AROUND].split())
    return ("…" if begin else "") + cut + ("…" if begin + _AROUND < len(content) else "")
