"""What every section of the configuration is."""

from pydantic import BaseModel, ConfigDict


class ConfigError(Exception):
    """The configuration cannot be used; the message names each place and what is wrong there."""


class Section(BaseModel):
    """A part of the tree: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
