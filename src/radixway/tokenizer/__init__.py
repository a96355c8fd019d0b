"""Tokenizers and chat templates: load once, render, encode, decode.

Built on the `tokenizers` library alone, so that loading costs milliseconds; results equal `transformers`'.
"""

from radixway.tokenizer.chat_template import ChatTemplate, Message, TemplateError
from radixway.tokenizer.conversation import render_chat
from radixway.tokenizer.piecewise import PiecewiseEncoder, Unfinished
from radixway.tokenizer.tokenizer import Tokenizer, TokenizerError

__all__ = [
    "ChatTemplate",
    "Message",
    "PiecewiseEncoder",
    "TemplateError",
    "Tokenizer",
    "TokenizerError",
    "Unfinished",
    "render_chat",
]
