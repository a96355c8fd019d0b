"""Export and erasure of a user's data, in every table and file.

`row_owners.py` says to whom the rows of each table belong; nothing else does.
"""

from radixway.chat.privacy.account_export import AccountExport
from radixway.chat.privacy.file_scrubber import FileScrubber
from radixway.chat.privacy.user_erasure import ErasedIds, UserErasure

__all__ = ["AccountExport", "ErasedIds", "FileScrubber", "UserErasure"]
