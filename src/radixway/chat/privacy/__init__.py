"""What becomes of a user's data: all of it told to them, all of it forgotten, in every table and file.

`owners.py` says for each table whose its rows are; nothing else does.
"""

from radixway.chat.privacy.export import AccountExport
from radixway.chat.privacy.forgetting import ErasedIds, UserErasure
from radixway.chat.privacy.scrubbing import FileScrubber

__all__ = ["AccountExport", "ErasedIds", "FileScrubber", "UserErasure"]
