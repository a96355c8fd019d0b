"""Who asks what: the human's ask in a prompt, told from what applications put around it.

Start with `read_prompt` in `reader.py`; `wording.py` has the words by which parts are known.
"""

from radixway.semantics.prompts.conversations import ConversationReading, read_conversation
from radixway.semantics.prompts.reader import PromptPart, PromptReading, read_prompt

__all__ = ["ConversationReading", "PromptPart", "PromptReading", "read_conversation", "read_prompt"]
