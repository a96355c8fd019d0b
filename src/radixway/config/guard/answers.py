"""`guard.answers`: what may not leave."""

from __future__ import annotations

from radixway.config.base import Section


class AnswersSection(Section):
    """What is looked for in answers."""
