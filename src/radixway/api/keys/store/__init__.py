"""Keys, users, teams and budgets that are made while the gateway runs. Start with `access_service.py`.

Everything is in one database, SQLite or PostgreSQL, that several gateways share: `access_store.py` reads and
writes it, `records.py` has what it keeps, `key_directory.py` holds the present state of it and gives the keys
to `core.tenants`, which knows them by their digests, and `budget_alerts.py` tells of budgets that come to
their end.

What is imported here needs no database; `AccessService` is imported from its module where there is one.

State, and the file that owns it:

- `key_directory.py`: records, keys by digest and accounts, as of a revision of the store
- `budget_alerts.py`: alerts on their way; who claims one in the store sends it, or gives it back
"""

from radixway.api.keys.store.changes import KeyChanges, TeamChanges, UserChanges
from radixway.api.keys.store.errors import AccessUnavailableError, RecordNotFoundError
from radixway.api.keys.store.records import KeyRecord, TeamMember, TeamRecord, UserRecord

__all__ = [
    "AccessUnavailableError",
    "KeyChanges",
    "KeyRecord",
    "RecordNotFoundError",
    "TeamChanges",
    "TeamMember",
    "TeamRecord",
    "UserChanges",
    "UserRecord",
]
