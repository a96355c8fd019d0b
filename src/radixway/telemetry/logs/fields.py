"""Lines with fields, for what is logged so often that it has to be cheap."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

FIELDS = "radixway_fields"
"""The attribute of a record that has them."""


def log_fields(log: logging.Logger, level: int, event: str, fields: Mapping[str, Any]) -> None:
    """Log `event` with these fields, JSON values that hold no text of a request; None is left out.

    As `log.log(level, event, extra=…)`, in a third of its time: nobody wants to know from which line it came.
    """
    record = logging.LogRecord(log.name, level, __file__, 0, event, None, None)
    record.__dict__[FIELDS] = fields
    log.handle(record)
