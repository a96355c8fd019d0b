"""Which weight version is older than which."""

from __future__ import annotations

import pytest

from radixway.trajectories.token_records import WeightVersions


def met(*names) -> WeightVersions:
    versions = WeightVersions()
    for name in names:
        versions.add_version(name)
    return versions


@pytest.mark.parametrize(("old", "new"), [(3, 10), ("3", "10"), (3, "10"), ("3", 10), ("003", "10")])
def test_numbers_are_as_old_as_they_are_small_however_they_are_written(old, new):
    for versions in (met(old, new), met(new, old), met()):
        assert versions.version_age(old, new) == 7 and versions.version_age(new, old) == -7


def test_other_names_are_as_old_as_they_came():
    versions = met("default", "step-9", "step-10", "default")
    assert versions.version_age("default", "step-10") == 2
    assert versions.version_age("step-10", "step-9") == -1
    assert versions.version_age("never met", "step-10") == -1, "whoever has not come is the newest"


def test_no_version_is_older_than_all():
    versions = met("first", "second")
    assert versions.version_age(None, "first") == 1 and versions.version_age(None, "second") == 2


def test_the_latest_never_goes_back():
    versions = WeightVersions()
    assert versions.latest is None
    for name, latest in ((3, 3), ("5", "5"), (4, "5"), (None, "5"), ("6", "6")):
        versions.add_version(name)
        assert versions.latest == latest


def test_a_number_that_is_too_long_for_one_is_a_name():
    long = "9" * 5_000
    assert met(long, long + "1").version_age(long, long + "1") == 1
