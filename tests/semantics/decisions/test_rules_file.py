"""The file of rules as it is edited: whole, in turn, and with a past."""

import os
import threading

import pytest

from radixway.semantics.decisions.rules_file import MAX_COPIES, RulesFile, RulesFileChangedError, text_version


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("a: 1\n")
    return RulesFile(path, tmp_path / "past")


def test_a_text_is_written_over_the_version_that_was_seen_alone(file):
    seen = text_version(file.read_text())
    file.write_text("a: 2\n", seen)
    with pytest.raises(RulesFileChangedError):
        file.write_text("a: 3\n", seen)
    assert file.read_text() == "a: 2\n"
    assert [file.find_version(each.version) for each in file.list_versions()] == ["a: 2\n", "a: 1\n"]


def test_only_one_of_many_who_write_at_once_does(file):
    seen, done = text_version(file.read_text()), []
    start = threading.Barrier(8)

    def write(number):
        start.wait()
        try:
            file.write_text(f"a: {number + 10}\n", seen)
        except RulesFileChangedError:
            return
        done.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1 and file.read_text() == f"a: {done[0] + 10}\n"


def test_the_past_is_bounded_and_a_text_that_comes_again_is_there_once(file):
    for number in range(MAX_COPIES + 5):
        file.write_text(f"a: {number + 2}\n", text_version(file.read_text()))
    assert len(file.list_versions()) == MAX_COPIES
    file.write_text("a: 10\n", text_version(file.read_text()))
    versions = [each.version for each in file.list_versions()]
    assert versions[0] == text_version("a: 10\n") and len(set(versions)) == len(versions) == MAX_COPIES
    assert file.find_version("nothing") is None and file.find_version("../" * 5) is None


def test_a_link_stays_one_and_a_file_keeps_its_mode(tmp_path):
    real, link = tmp_path / "real.yaml", tmp_path / "rules.yaml"
    real.write_text("a: 1\n")
    real.chmod(0o640)
    link.symlink_to(real)
    file = RulesFile(link, tmp_path / "past")
    file.write_text("a: 2\n", text_version("a: 1\n"))
    assert link.is_symlink() and real.read_text() == "a: 2\n"
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_write_that_fails_leaves_the_text_and_nothing_beside_it(file, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        file.write_text("a: 2\n", text_version("a: 1\n"))
    assert file.read_text() == "a: 1\n"
    assert [each.name for each in file.path.parent.iterdir() if each.is_file()] == ["rules.yaml"]
