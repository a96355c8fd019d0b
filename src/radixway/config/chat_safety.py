"""The `chat.safety` section: how careful answers in chats are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from radixway.config.base import ConfigSection

Level = Annotated[int, Field(ge=0, le=3)]
"""0: nothing is judged; 1: interventions matter; 2: cautions, too; 3: every warning."""


class ChatSafetyConfig(ConfigSection):
    """Questions are judged before anybody answers them, and made safe."""

    level: Level = 0
    """0: nothing is judged; 1: interventions matter; 2: cautions too; 3: every warning."""
    models: dict[str, Level] = Field(default={})
    """Levels of models that have one of their own, by name. No request can go below its model's."""
    url: str | None = Field(default=None, pattern=r"^https?://")
    """Of a service that speaks the published `/safety`; without one the guard's classifiers judge."""
    timeout_s: float = Field(default=5.0, gt=0)
    """How long a question may be judged."""
    on_error: Literal["refuse", "allow"] = "refuse"
    """What becomes of a question that nobody could judge: its answer ends with an error, or is given."""
    failures: int = Field(default=3, ge=1)
    """Of the service in a row, until it is left alone for `rest_s`; then one question tries it."""
    rest_s: float = Field(default=10.0, gt=0)
    """For how long; then one question tries it."""

    @property
    def is_on(self) -> bool:
        """Whether anything is judged without being asked for."""
        return bool(self.level or any(self.models.values()))
