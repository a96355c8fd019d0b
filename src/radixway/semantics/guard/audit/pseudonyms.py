"""Pseudonyms of the users in the audit log, and the only table that leads back.

A pseudonym is the hash of the user's name under a key of that user's own. Without the key nobody can tell
whose it was, not even who has a list of all names to try: forgetting the key erases the user from the log,
whose lines stay as they are (docs/decisions/0008-users-in-the-audit-log.md).
"""

import hashlib
import hmac
import secrets
from contextlib import closing
from pathlib import Path

from radixway.core.storage import open_sqlite

FILE = "pseudonyms.sqlite"

_CREATE_USERS = """
CREATE TABLE IF NOT EXISTS users (
    tenant TEXT NOT NULL, user TEXT NOT NULL, key BLOB NOT NULL, PRIMARY KEY (tenant, user)
) WITHOUT ROWID
"""
_MIGRATIONS = ((_CREATE_USERS,),)


class PseudonymStore:
    """Keys of users in one file, which several processes may have open. Methods may raise sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        self._db = open_sqlite(path, _MIGRATIONS, overwrites_deleted=True, has_write_ahead_log=False)
        path.chmod(0o600)

    def get_or_create(self, tenant: str, user: str) -> str:
        """Return the pseudonym of `user`, who is given a key if there is none."""
        row = self._key_of(tenant, user)
        if row is None:
            fresh = (tenant, user, secrets.token_bytes(32))
            self._db.execute("INSERT OR IGNORE INTO users (tenant, user, key) VALUES (?, ?, ?)", fresh)
            row = self._key_of(tenant, user)
            assert row is not None
        return _derive_pseudonym(row, tenant, user)

    def find_existing(self, tenant: str, user: str) -> str | None:
        """Return the pseudonym of `user`; None where there is no key."""
        key = self._key_of(tenant, user)
        return None if key is None else _derive_pseudonym(key, tenant, user)

    def delete_keys(self, tenant: str, user: str | None) -> list[str]:
        """Delete the key of `user`, or of all of `tenant`; return the pseudonyms, now anonymous."""
        chosen = "tenant = ?1 AND (?2 IS NULL OR user = ?2)"
        rows = self._db.execute(f"SELECT user, key FROM users WHERE {chosen}", (tenant, user)).fetchall()
        self._db.execute(f"DELETE FROM users WHERE {chosen}", (tenant, user))
        return [_derive_pseudonym(key, tenant, name) for name, key in rows]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _key_of(self, tenant: str, user: str) -> bytes | None:
        row = self._db.execute(
            "SELECT key FROM users WHERE tenant = ? AND user = ?", (tenant, user)
        ).fetchone()
        return None if row is None else row[0]


def find_pseudonym(directory: Path, tenant: str, user: str) -> str | None:
    """Return the pseudonym of `user` in the log in `directory`; None where there is none, or not any more."""
    path = directory / FILE
    if not path.exists():
        return None
    with closing(PseudonymStore(path)) as pseudonyms:
        return pseudonyms.find_existing(tenant, user)


def _derive_pseudonym(key: bytes, tenant: str, user: str) -> str:
    identity = f"{tenant}\0{user}".encode("utf-8", "replace")
    return "u-" + hmac.new(key, identity, hashlib.sha256).hexdigest()[:24]
