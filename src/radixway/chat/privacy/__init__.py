"""What becomes of a user's data: all of it told to them, all of it forgotten, in every table and file.

`row_owners.py` says for each table whose its rows are; nothing else does.
"""

from radixway.chat.privacy.account_export import AccountExport
from radixway.chat.privacy.file_scrubber import FileScrubber
from radixway.chat.privacy.user_erasure import ErasedIds, UserErasure

__all__ = ["AccountExport", "ErasedIds", "FileScrubber", "UserErasure"]
