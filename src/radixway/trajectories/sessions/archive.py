"""Sessions in a SQLite file: every finished call is one transaction, so a crash costs none."""

import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from radixway.core.storage import open_sqlite
from radixway.trajectories.sessions.call import AddedTokens, SessionCall
from radixway.trajectories.sessions.session import AgentSession
from radixway.trajectories.store import TrajectoryStore
from radixway.trajectories.token_records import TokenLabel

_CREATE_SESSIONS = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, model TEXT, metadata TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL,
    state TEXT NOT NULL, reward REAL
) WITHOUT ROWID
"""
_CREATE_CALLS = """
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, session TEXT NOT NULL, parent TEXT,
    told TEXT NOT NULL, reward REAL, frame BLOB NOT NULL, spans TEXT NOT NULL,
    ids BLOB NOT NULL, logprobs BLOB NOT NULL, text BLOB NOT NULL, ends BLOB NOT NULL, experts BLOB
)
"""
_CREATE_INDEX = "CREATE INDEX IF NOT EXISTS calls_of_session ON calls (session, number)"
_MIGRATIONS = ((_CREATE_SESSIONS, _CREATE_CALLS, _CREATE_INDEX),)
_JSON_FIELDS = (
    *("model", "answer", "begin", "sampled_at", "end", "finish", "stop", "experts_start"),
    *("resumes", "instructed", "exact", "created", "wire"),
)
"""Fields of a call that are stored as JSON."""


class SessionArchive:
    """A file of sessions. Every method blocks; it belongs to one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it. Raises sqlite3.Error, ValueError for a file of another version."""
        self._db = open_sqlite(path, _MIGRATIONS, overwrites_deleted=True)

    def close_file(self) -> None:
        """Close the file."""
        self._db.close()

    def load_sessions(self, store: TrajectoryStore) -> Iterator[AgentSession]:
        """Load all sessions, without their calls, least recently used first."""
        rows = self._db.execute(
            "SELECT s.id, s.model, s.metadata, s.created, s.used, s.state, s.reward, count(c.number)"
            " FROM sessions s LEFT JOIN calls c ON c.session = s.id GROUP BY s.id ORDER BY s.used"
        )
        for session_id, model, metadata, created, used, state, reward, count in rows:
            session = AgentSession(
                session_id, store, model, json.loads(metadata), created, used, state, reward
            )
            session.loaded, session.stored_calls = count == 0, count
            yield session

    def load_calls(self, session_id: str) -> list[tuple[SessionCall, AddedTokens]]:
        """The calls of a session in the order in which they ended, not held, and what each added."""
        calls: dict[str, SessionCall] = {}
        found = []
        rows = self._db.execute(
            "SELECT id, parent, told, reward, frame, spans, ids, logprobs, text, ends, experts"
            " FROM calls WHERE session = ? ORDER BY number",
            (session_id,),
        )
        for call_id, parent, fields_json, reward, frame, spans, ids, logprobs, text, ends, experts in rows:
            fields: dict[str, Any] = json.loads(fields_json)
            fields["messages"] = tuple(fields["messages"])
            fields["deviations"] = tuple(fields["deviations"])
            above = None if parent is None else calls[parent]
            call = SessionCall(
                id=call_id, parent=above, frame=frame, reward=reward, experts=experts, **fields
            )
            calls[call_id] = call
            labels = tuple((end, TokenLabel(*label)) for end, label in json.loads(spans))
            added = AddedTokens(array("I", ids), array("f", logprobs), labels, text, array("I", ends))
            found.append((call, added))
        return found

    def write_session(self, session: AgentSession) -> None:
        """A session as it is now, without its calls."""
        self._db.execute(
            "INSERT OR REPLACE INTO sessions (id, model, metadata, created, used, state, reward)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                *(session.id, session.model, json.dumps(session.metadata), session.created, session.used),
                *(session.state, session.reward),
            ),
        )

    def write_call(self, session: AgentSession, call: SessionCall, added: AddedTokens) -> None:
        """Write a finished call and its session."""
        fields = {name: getattr(call, name) for name in _JSON_FIELDS}
        fields |= {"messages": call.messages, "deviations": call.deviations}
        row = (
            *(call.id, session.id, call.parent.id if call.parent is not None else None, json.dumps(fields)),
            *(call.reward, call.frame, json.dumps(added.spans), added.ids.tobytes()),
            *(added.logprobs.tobytes(), added.text, added.ends.tobytes(), call.experts),
        )
        self._db.execute("BEGIN")
        with self._db:
            self.write_session(session)
            self._db.execute(
                "INSERT INTO calls (id, session, parent, told, reward, frame, spans, ids, logprobs, text,"
                " ends, experts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def write_reward(self, call: SessionCall) -> None:
        """The reward of a call."""
        self._db.execute("UPDATE calls SET reward = ? WHERE id = ?", (call.reward, call.id))

    def delete_session(self, session_id: str) -> None:
        """Delete session `session_id` and its calls."""
        self._db.execute("BEGIN")
        with self._db:
            self._db.execute("DELETE FROM calls WHERE session = ?", (session_id,))
            self._db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def scrub_wal(self) -> None:
        """Have nothing of what was deleted in the write-ahead log either."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
