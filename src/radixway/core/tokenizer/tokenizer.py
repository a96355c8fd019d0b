"""A model's tokenizer: text to token ids and back, and its chat template."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from radixway.core.tokenizer.chat_template import ChatTemplate, Message, TemplateError
from radixway.core.tokenizer.token_bytes import TokenBytes
from radixway.core.tokenizer.tokenizer_files import TokenizerError, read_tokenizer_files

__all__ = ["Tokenizer", "TokenizerError"]


class Tokenizer:
    """Encodes and decodes as `transformers` would for the same directory; safe to use from several threads.

    Made by `Tokenizer.load(directory)`, or from a `tokenizers` backend and what is known of it. The backend
    has all its added tokens by then: `size`, `longest_token` and `special_ids` are read once.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        special_tokens: Mapping[str, str] | None = None,
        eos_token_ids: frozenset[int] = frozenset(),
        chat_templates: Mapping[str, str] | None = None,
    ) -> None:
        self.backend = backend
        self.special_tokens = dict(special_tokens or {})
        self.eos_token_ids = eos_token_ids
        """Ids that end an answer, from the tokenizer, generation_config.json and config.json together."""
        self.special_ids = frozenset(
            token_id for token_id, token in backend.get_added_tokens_decoder().items() if token.special
        )
        """Ids that `skip_special_tokens` leaves out of decoded text."""
        vocabulary = backend.get_vocab(with_added_tokens=True)  # a copy each time: seconds, token by token
        self.size = max(vocabulary.values(), default=-1) + 1
        """One more than the largest id that `encode` can give."""
        self.longest_token = max(map(len, vocabulary), default=0)
        """Most characters of a text that one token can stand for."""
        self.token_bytes = TokenBytes(backend)
        """Token id → the bytes it adds to a text; see `TokenBytes`."""
        self.chat_templates = {
            name: ChatTemplate(source, self.special_tokens) for name, source in (chat_templates or {}).items()
        }

    @classmethod
    def load(cls, directory: str | Path) -> "Tokenizer":
        """The tokenizer of a Hugging Face model directory. Raises TokenizerError or TemplateError."""
        files = read_tokenizer_files(Path(directory))
        return cls(
            files.backend,
            special_tokens=files.special_tokens,
            eos_token_ids=files.eos_token_ids,
            chat_templates=files.chat_templates,
        )

    def token_id(self, name: str) -> int | None:
        """Return the id of the special token `name` (`bos_token`, `eos_token`, …), or None where the model
        has none.
        """
        text = self.special_tokens.get(name)
        return None if text is None else self.backend.token_to_id(text)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of `text`; special tokens written in it count as such. Blocks some 0.6 ms per KB.

        `add_special_tokens` puts what the model expects around a text (a Llama's beginning-of-text, say); a
        chat prompt has that already. Raises ValueError for text that is not valid Unicode (lone surrogates),
        and where the library breaks.
        """
        try:
            # The batch call, unlike encode(), lets other threads run meanwhile.
            batch = self.backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        except TypeError as error:
            raise ValueError("the text is not valid Unicode") from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # the library's, which no module exports
                raise
            raise ValueError(f"the tokenizer cannot cope with this text: {error}") from error
        ids: list[int] = batch[0].ids
        return ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of whole `token_ids`. Raises ValueError for an id that cannot be one."""
        try:
            # As in `encode`: other threads run meanwhile.
            texts: list[str] = self.backend.decode_batch([token_ids], skip_special_tokens=skip_special_tokens)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"not token ids: {error}") from error
        return texts[0]

    def piece(self, token_id: int) -> str:
        """Return the token `token_id` as text; bytes that are no character by themselves show as U+FFFD."""
        return self.token_bytes[token_id].decode("utf-8", "replace")

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The chat prompt for `messages`, see `ChatTemplate.render`. Raises TemplateError."""
        templates = self.chat_templates
        template = (templates.get("tool_use") if tools else None) or templates.get("default")
        if template is None:
            raise TemplateError("this model has no chat template; use completions with a plain prompt")
        return template.render(
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            arguments=arguments,
        )
