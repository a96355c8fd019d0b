"""Files of ours that several processes may open at the same moment."""

from radixway.storage.sqlite_log import write_ahead

__all__ = ["write_ahead"]
