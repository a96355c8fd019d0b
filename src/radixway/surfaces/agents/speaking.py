"""How one model is spoken to: its tokenizer, its prompts, and how its answers are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from radixway.parsers import AnswerFormat, ModelFamily
from radixway.surfaces.wires import NormalizedRequest
from radixway.trajectories.sessions import PromptBuilder, SessionPrompt

if TYPE_CHECKING:
    from radixway.tokenizer import Tokenizer


class ModelCodec:
    """For one model."""

    def __init__(self, model: str, tokenizer: Tokenizer) -> None:
        self.model = model
        """As workers call it."""
        self.tokenizer = tokenizer
        self.prompting = PromptBuilder(tokenizer)
        self._family = ModelFamily.detect_family(
            template.source for template in tokenizer.chat_templates.values()
        )

    def answer_format(self, ask: NormalizedRequest, prompt: SessionPrompt) -> AnswerFormat:
        """How to read the answer to `prompt`."""
        ends_with = prompt.ids or [0]
        reading = ask.answer_format(self._family, self.prompting.prompt_ending(ends_with))
        if prompt.resumes and prompt.parent is not None and self._family.thinking is not None:
            answer = prompt.parent.answer
            inside = bool(answer.get("reasoning_content")) and not answer.get("content")
            return replace(reading, place="inside" if inside else "after")
        return reading

    def hides_markers(self, reading: AnswerFormat) -> bool:
        """Would a text without special tokens lack something that the reading looks for?"""
        special = self.tokenizer.special_ids
        ids = map(self.tokenizer.backend.token_to_id, reading.markers)
        return any(token_id in special for token_id in ids)
