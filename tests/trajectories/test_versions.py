"""Which weight version is older than which."""

from __future__ import annotations

import pytest

from radixway.trajectories.versions import Versions


def met(*names) -> Versions:
    versions = Versions()
    for name in names:
        versions.meet(name)
    return versions


@pytest.mark.parametrize(("old", "new"), [(3, 10), ("3", "10"), (3, "10"), ("3", 10), ("003", "10")])
def test_numbers_are_as_old_as_they_are_small_however_they_are_written(old, new):
    for versions in (met(old, new), met(new, old), met()):
        assert versions.age(old, new) == 7 and versions.age(new, old) == -7


def test_other_names_are_as_old_as_they_came():
    versions = met("default", "step-9", "step-10", "default")
    assert versions.age("default", "step-10") == 2
    assert versions.age("step-10", "step-9") == -1
    assert versions.age("never met", "step-10") == -1, "whoever has not come is the newest"


def test_no_version_is_older_than_all():
    versions = met("first", "second")
    assert versions.age(None, "first") == 1 and versions.age(None, "second") == 2


def test_the_latest_never_goes_back():
    versions = Versions()
    assert versions.latest is None
    for name, latest in ((3, 3), ("5", "5"), (4, "5"), (None, "5"), ("6", "6")):
        versions.meet(name)
        assert versions.latest == latest


def test_a_number_that_is_too_long_for_one_is_a_name():
    long = "9" * 5_000
    assert met(long, long + "1").age(long, long + "1") == 1
