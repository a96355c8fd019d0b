"""Tokenizers and chat templates: load once, render, encode, decode.

Built on the `tokenizers` library alone, so that loading costs milliseconds; results equal `transformers`'.
"""

from radixway.tokenizer.chat_template import ChatTemplate, Message, TemplateError
from radixway.tokenizer.conversation import render_chat
from radixway.tokenizer.piecewise import PartialEncoding, PiecewiseEncoder
from radixway.tokenizer.same_message import count_common_messages, is_same_message
from radixway.tokenizer.tokenizer import Tokenizer, TokenizerError
from radixway.tokenizer.turn_probe import CannotContinueError
from radixway.tokenizer.turns import TurnContinuation, TurnRenderer

__all__ = [
    "CannotContinueError",
    "ChatTemplate",
    "Message",
    "PartialEncoding",
    "PiecewiseEncoder",
    "TemplateError",
    "Tokenizer",
    "TokenizerError",
    "TurnContinuation",
    "TurnRenderer",
    "count_common_messages",
    "is_same_message",
    "render_chat",
]
