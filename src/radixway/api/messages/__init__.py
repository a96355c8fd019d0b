"""Anthropic's `/v1/messages`: passed on to a worker that has it, else answered by a chat completion.

Begin with `dispatch.py`. It keeps no state.
"""

from radixway.api.messages.dispatch import MessagesDispatcher, MessagesHandler
from radixway.api.messages.token_count import TokenCountDispatcher

__all__ = ["MessagesDispatcher", "MessagesHandler", "TokenCountDispatcher"]
