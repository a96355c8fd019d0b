"""Files of ours that several processes may open at the same moment."""

from radixway.core.storage.sqlite_files import Migration, open_sqlite, write_ahead

__all__ = ["Migration", "open_sqlite", "write_ahead"]
