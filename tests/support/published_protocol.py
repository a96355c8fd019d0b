"""What a published worker accepts: the JSON schemas of the published service's own classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_SCHEMAS = json.loads((Path(__file__).parents[1] / "data" / "oasst" / "worker_protocol.json").read_text())
_to_worker = Draft202012Validator(_SCHEMAS["WorkerRequest"])


def check_work_frame(frame: dict[str, Any]) -> None:
    """Raise where the published worker would raise, after which it closes its connection.

    It parses the frame, and then reads the words of every message: null is no text.
    """
    _to_worker.validate(_without_nulls(frame))
    for message in frame["thread"]["messages"]:
        assert isinstance(message["content"], str), message


def _without_nulls(value: Any) -> Any:
    """Fields that are not required may be null, which the schemas do not say."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value
