"""Errors of the rules API."""

from __future__ import annotations

from typing import Any

import msgspec

from radixway.core.config import ConfigError
from radixway.core.pipeline import GatewayError


class SemanticOffError(GatewayError):
    """There are no rules."""

    status = 404
    code = "semantic_off"


class RulesNotFoundError(GatewayError):
    """No text of that version is kept."""

    status = 404
    code = "rules_not_found"
    param = "version"


class RulesNotEditableError(GatewayError):
    """The rules cannot be changed while the gateway runs."""

    status = 409
    code = "rules_not_editable"


class RulesNotAppliedError(GatewayError):
    """They were written, refused at the reload, and taken back."""

    status = 409
    code = "rules_not_taken"


class VersionRequiredError(GatewayError):
    """A write without `If-Match`, the version that was seen."""

    status = 428
    code = "version_needed"
    param = "if-match"


class RulesChangedError(GatewayError):
    """The file was changed by somebody else meanwhile."""

    status = 412
    code = "rules_changed"
    param = "if-match"


class RulesInvalidError(GatewayError):
    """The text has mistakes; beside OpenAI's fields, `mistakes` has each with its line."""

    status = 400
    code = "rules_refused"
    param = "text"

    def __init__(self, error: ConfigError) -> None:
        super().__init__(str(error))
        self._error = error

    def body(self) -> bytes:
        """Encode it with `mistakes`."""
        from radixway.api.rules.shapes import describe_mistakes

        told: dict[str, Any] = msgspec.json.decode(super().body())
        told["error"]["mistakes"] = [each.model_dump() for each in describe_mistakes(self._error)]
        return msgspec.json.encode(told)
