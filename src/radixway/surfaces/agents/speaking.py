"""How one model is spoken to: its tokenizer, its prompts, and how its answers are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from radixway.parsers import Family, Reading
from radixway.surfaces.wires import Ask
from radixway.trajectories.sessions import Prompt, Prompting

if TYPE_CHECKING:
    from radixway.tokenizer import Tokenizer


class Speaking:
    """For one model."""

    def __init__(self, model: str, tokenizer: Tokenizer) -> None:
        self.model = model
        """As workers call it."""
        self.tokenizer = tokenizer
        self.prompting = Prompting(tokenizer)
        self._family = Family.of(template.source for template in tokenizer.chat_templates.values())

    def reading(self, ask: Ask, prompt: Prompt) -> Reading:
        """How to read the answer to `prompt`."""
        ends_with = prompt.ids or [0]
        reading = ask.reading(self._family, self.prompting.ending(ends_with))
        if prompt.resumes and prompt.parent is not None and self._family.thinking is not None:
            answer = prompt.parent.answer
            inside = bool(answer.get("reasoning_content")) and not answer.get("content")
            return replace(reading, place="inside" if inside else "after")
        return reading

    def hides(self, reading: Reading) -> bool:
        """Would a text without special tokens lack something that the reading looks for?"""
        special = self.tokenizer.special_ids
        ids = map(self.tokenizer.backend.token_to_id, reading.markers)
        return any(token_id in special for token_id in ids)
