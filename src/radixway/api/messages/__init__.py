"""Anthropic's `/v1/messages`: passed on to a worker that has it, else answered by a chat completion.

Begin with `dispatch.py`. It keeps no state.
"""

from radixway.api.messages.dispatch import MessagesDispatcher, MessagesHandler, RequestIdHeader
from radixway.api.messages.model_page import (
    VERSION_HEADER,
    ModelPageQuery,
    build_model_info,
    build_model_page,
)

__all__ = [
    "VERSION_HEADER",
    "MessagesDispatcher",
    "MessagesHandler",
    "ModelPageQuery",
    "RequestIdHeader",
    "build_model_info",
    "build_model_page",
]
