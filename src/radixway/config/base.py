"""What every section of the configuration is."""

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


class ConfigError(Exception):
    """The configuration cannot be used; the message names each place and what is wrong there."""


class ConfigSection(BaseModel):
    """A part of the tree: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parse_off(value: Any) -> Any:
    """`off` for what YAML makes of the word without quotes."""
    return "off" if value is False else value


MAY_BE_OFF = BeforeValidator(parse_off)
"""Of a field that has `off` among its words."""
