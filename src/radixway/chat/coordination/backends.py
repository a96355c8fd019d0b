"""Chooses how the processes on one database reach each other: Valkey, PostgreSQL, files, or not at all."""

from pathlib import Path

from radixway.chat.coordination.shared_notifier import ReconnectingTasks, SharedNotifier, TopicTransport
from radixway.chat.database import ChatDatabase
from radixway.chat.ids import new_id
from radixway.chat.notifications import TopicNotifier
from radixway.chat.token_log import TokenLog


def make_coordination(
    database: ChatDatabase, redis: str | None, *, kept_s: float
) -> tuple[TokenLog, TopicNotifier, ReconnectingTasks | None]:
    """Return the token logs, the notifier, and the state of their connections (None: they need none).

    `redis`: the URL of a Valkey or Redis server. `kept_s`: see `TokenLog`. Raises ValueError for a bad URL.
    """
    process = new_id()
    if redis is not None:
        from radixway.chat.coordination.valkey import ValkeyTokenLog, ValkeyTopicTransport

        reconnecting = ReconnectingTasks("valkey")
        tokens = ValkeyTokenLog(redis, process, reconnecting, kept_s=kept_s)
        return tokens, SharedNotifier(ValkeyTopicTransport(redis, process), reconnecting), reconnecting
    transport = _database_transport(database, process)
    if transport is None:
        return TokenLog(kept_s=kept_s), TopicNotifier(), None
    reconnecting = ReconnectingTasks("files" if database.is_sqlite else "postgresql")
    return TokenLog(kept_s=kept_s), SharedNotifier(transport, reconnecting), reconnecting


def _database_transport(database: ChatDatabase, process: str) -> TopicTransport | None:
    """Return the database's transport, or None for a database in memory."""
    if not database.is_sqlite:
        from radixway.chat.coordination.postgres_transport import PostgresTopicTransport

        return PostgresTopicTransport(database.url, process)
    file = database.url.database
    if not file or file == ":memory:":
        return None
    from radixway.chat.coordination.file_transport import FileTopicTransport

    return FileTopicTransport(Path(f"{file}-bells"), process)
