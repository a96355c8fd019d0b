"""Keys that were renamed: the old name is still read, with a warning that tells the new one."""

import logging
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from radixway.core.config.yaml_file import Place

log = logging.getLogger(__name__)

RENAMED_KEYS: Mapping[str, str] = {
    "telemetry.log_level": "telemetry.logs.level",
}
"""Old name → new name. The values that a key may have stay the same."""


def rename_keys(tree: dict[str, Any], locate: Callable[[Place], str]) -> dict[str, Any]:
    """Give the values of old keys to the new ones, unless these are given too.

    Args:
        tree: of one source: a file, the environment, the command line.
        locate: where that source has a key, for the warning.

    Returns:
        `tree` itself where no old key is in it.
    """
    renamed = tree
    for old, new in RENAMED_KEYS.items():
        old_place, new_place = tuple(old.split(".")), tuple(new.split("."))
        section = _section(renamed, old_place)
        if section is None or old_place[-1] not in section:
            continue
        if renamed is tree:
            renamed = deepcopy(tree)
            section = _section(renamed, old_place)
        assert section is not None
        value = section.pop(old_place[-1])
        section = _section(renamed, new_place, make=True)
        if section is None or new_place[-1] in section:
            log.warning("%s: %s is ignored: %s, its new name, is given too", locate(old_place), old, new)
        else:
            log.warning("%s: %s is now called %s; the old name is still read", locate(old_place), old, new)
            section[new_place[-1]] = value
    return renamed


def old_places(place: Place) -> list[Place]:
    """The old names of the key at `place`, and of all keys within it."""
    found: list[Place] = []
    for old, new in RENAMED_KEYS.items():
        parts = tuple(new.split("."))
        if place[: len(parts)] == parts:
            found.append((*old.split("."), *place[len(parts) :]))
    return found


def _section(tree: dict[str, Any], place: Place, *, make: bool = False) -> dict[str, Any] | None:
    """Return the section of the key at `place`, or None."""
    section = tree
    for part in map(str, place[:-1]):
        if make and section.get(part) is None:
            section[part] = {}
        child = section.get(part)
        if not isinstance(child, dict):
            return None
        section = child
    return section
