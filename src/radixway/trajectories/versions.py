"""Which weight version is older: by number where both are numbers, else in the order they came."""

from __future__ import annotations

from radixway.trajectories.records import Version


class WeightVersions:
    """The versions that were met. Text of digits counts as its number; `None` is older than all."""

    def __init__(self) -> None:
        self._arrivals: dict[Version, int] = {}
        self.latest: Version | None = None
        """The one met last that was newer than all before."""

    def add_version(self, version: Version | None) -> None:
        """Note that tokens of this version exist."""
        if version is None or version in self._arrivals:
            return
        self._arrivals[version] = len(self._arrivals)
        if self.latest is None or self.version_age(self.latest, version) > 0:
            self.latest = version

    def version_age(self, version: Version | None, current: Version) -> int:
        """How many versions `version` is behind `current`; negative if it is ahead."""
        number, now = _version_number(version), _version_number(current)
        if number is not None and now is not None:
            return now - number
        arrivals = self._arrivals
        behind = -1 if version is None else arrivals.get(version, len(arrivals))
        return arrivals.get(current, len(arrivals)) - behind


def _version_number(version: Version | None) -> int | None:
    if isinstance(version, int):
        return version
    return int(version) if version is not None and version.isdecimal() and len(version) < 20 else None
