"""Tokenizers and chat templates: load once, render, encode, decode.

Built on the `tokenizers` library alone, so that loading costs milliseconds; results equal `transformers`'.
"""

from radixway.core.tokenizer.chat_template import ChatTemplate, Message, TemplateError
from radixway.core.tokenizer.messages import count_common_messages, render_chat
from radixway.core.tokenizer.piecewise import PartialEncoding, PiecewiseEncoder
from radixway.core.tokenizer.template_probe import CannotContinueError
from radixway.core.tokenizer.tokenizer import Tokenizer, TokenizerError, read_sampling_defaults
from radixway.core.tokenizer.turn_renderer import TurnRenderer
from radixway.core.tokenizer.word_encoder import WordEncoder

__all__ = [
    "CannotContinueError",
    "ChatTemplate",
    "Message",
    "PartialEncoding",
    "PiecewiseEncoder",
    "TemplateError",
    "Tokenizer",
    "TokenizerError",
    "TurnRenderer",
    "WordEncoder",
    "count_common_messages",
    "read_sampling_defaults",
    "render_chat",
]
