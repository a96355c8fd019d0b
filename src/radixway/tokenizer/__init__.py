"""Tokenizers and chat templates: load once, render, encode, decode.

Built on the `tokenizers` library alone, so that loading costs milliseconds; results equal `transformers`'.
"""

from radixway.tokenizer.chat_template import ChatTemplate, Message, TemplateError
from radixway.tokenizer.conversation import render_chat
from radixway.tokenizer.piecewise import PiecewiseEncoder, Unfinished
from radixway.tokenizer.same_message import common_turns, same_message
from radixway.tokenizer.tokenizer import Tokenizer, TokenizerError
from radixway.tokenizer.turn_probe import CannotContinue
from radixway.tokenizer.turns import Appended, TurnRenderer

__all__ = [
    "Appended",
    "CannotContinue",
    "ChatTemplate",
    "Message",
    "PiecewiseEncoder",
    "TemplateError",
    "Tokenizer",
    "TokenizerError",
    "TurnRenderer",
    "Unfinished",
    "common_turns",
    "render_chat",
    "same_message",
]
