"""What becomes of a user's data: all of it told to them, all of it forgotten, in every table and file.

`owners.py` says for each table whose its rows are; nothing else does.
"""

from radixway.chat.privacy.export import Export
from radixway.chat.privacy.forgetting import Forgetting, Forgotten
from radixway.chat.privacy.scrubbing import Scrubber

__all__ = ["Export", "Forgetting", "Forgotten", "Scrubber"]
