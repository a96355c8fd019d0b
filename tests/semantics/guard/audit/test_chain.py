"""The audit log's files: what is written, what a crash leaves, what verification finds."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.semantics.guard.audit import ChainHead, EntryHasher, HashChain, HashChainError, verify_log
from radixway.semantics.guard.audit.entry import encode_entry
from radixway.semantics.guard.audit.hash_chain import HEAD_FILE, NOWHERE, write_head
from radixway.semantics.guard.audit.log_files import list_log_files

DAY = 86_400.0
NOON = 1_795_262_400.0  # 2026-11-21T12:00:00Z
TIME = "2026-11-21T12:00:00.000000Z"
KEY = b"a key of the auditors alone"


def some(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"kind": "incident", "rule": "pii", "number": first + at} for at in range(count)]


def written(directory: Path, *days: int, seal: EntryHasher | None = None) -> HashChain:
    """A log with that many entries on each day, after its first, `begin`."""
    chain = HashChain(directory, seal or EntryHasher())
    chain.open_chain(NOON)
    for day, count in enumerate(days):
        chain.append_entries(some(count, 100 * day), NOON + day * DAY)
    return chain


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def only_file(directory: Path) -> Path:
    (file,) = list_log_files(directory)
    return file.path


def test_every_line_can_be_checked_without_this_program(tmp_path: Path) -> None:
    written(tmp_path, 3)
    before = "0" * 64
    for number, line in enumerate(lines_of(only_file(tmp_path))):
        entry = json.loads(line)
        said = entry.pop("hash")
        plain = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert (entry["seq"], entry["prev"]) == (number, before)
        assert hashlib.sha256(plain.encode()).hexdigest() == said
        before = said


def test_the_chain_goes_on_from_file_to_file_and_from_process_to_process(tmp_path: Path) -> None:
    written(tmp_path, 2, 2)
    again = HashChain(tmp_path, EntryHasher())
    again.append_entries(some(1), NOON + 2 * DAY)

    verdict = verify_log(tmp_path, EntryHasher())

    assert verdict.holds and verdict.entries == 6
    assert [file.day for file in list_log_files(tmp_path)] == ["2026-11-21", "2026-11-22", "2026-11-23"]


def test_a_file_that_is_full_is_followed_by_another(tmp_path: Path) -> None:
    chain = HashChain(tmp_path, EntryHasher(), max_file_bytes=600)
    for at in range(6):
        tmp_path.mkdir(exist_ok=True)
        chain.append_entries(some(1, at), NOON)
    assert len(list_log_files(tmp_path)) > 1
    assert verify_log(tmp_path, EntryHasher()).holds


def test_several_gateways_write_one_chain(tmp_path: Path) -> None:
    """The lock is an open file's: chains of one process shut each other out as those of two do."""
    HashChain(tmp_path, EntryHasher()).open_chain(NOON)

    def append_many() -> None:
        chain = HashChain(tmp_path, EntryHasher())
        for at in range(20):
            chain.append_entries(some(2, at), NOON)

    writers = [threading.Thread(target=append_many) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    verdict = verify_log(tmp_path, EntryHasher())

    assert verdict.holds and verdict.entries == 1 + 3 * 20 * 2


def changed(lines: list[bytes]) -> None:
    lines[2] = lines[2].replace(b'"number":1', b'"number":7')


def changed_with_its_hash(lines: list[bytes]) -> None:
    entry = json.loads(lines[2]) | {"number": 7}
    lines[2] = encode_entry(EntryHasher().seal_entry(entry)) + b"\n"


def written_otherwise(lines: list[bytes]) -> None:
    lines[2] = lines[2].replace(b'"kind":', b'"kind": ')


def emptied(lines: list[bytes]) -> None:
    lines[2] = b"\n"


def removed(lines: list[bytes]) -> None:
    del lines[2]


def swapped(lines: list[bytes]) -> None:
    lines[2], lines[3] = lines[3], lines[2]


def repeated(lines: list[bytes]) -> None:
    lines.insert(3, lines[1])


@pytest.mark.parametrize(
    ("spoil", "what", "seq"),
    [
        (changed, "changed", 2),
        (changed_with_its_hash, "changed", 2),
        (written_otherwise, "changed", 2),
        (emptied, "changed", 2),
        (removed, "removed", 2),
        (swapped, "reordered", 2),
        (repeated, "reordered", 1),
    ],
)
def test_the_first_entry_that_is_not_as_written_is_named(
    tmp_path: Path, spoil: Any, what: str, seq: int
) -> None:
    written(tmp_path, 5)
    file = only_file(tmp_path)
    lines = lines_of(file)
    spoil(lines)
    file.write_bytes(b"".join(lines))

    broken = verify_log(tmp_path, EntryHasher()).broken

    assert broken is not None and (broken.what, broken.seq) == (what, seq)


def cut(directory: Path, count: int = 2) -> None:
    file = only_file(directory)
    file.write_bytes(b"".join(lines_of(file)[:-count]))


@pytest.mark.parametrize("seal", [EntryHasher(), EntryHasher(KEY)])
def test_what_is_cut_off_at_the_end_is_missed(tmp_path: Path, seal: EntryHasher) -> None:
    written(tmp_path, 5, seal=seal)
    whole = verify_log(tmp_path, seal)
    assert whole.holds and whole.kept == whole.head
    cut(tmp_path)

    broken = verify_log(tmp_path, seal).broken

    assert broken is not None and (broken.what, broken.seq) == ("truncated", 4)


def test_a_log_that_goes_on_after_a_cut_says_so_for_ever(tmp_path: Path) -> None:
    written(tmp_path, 5)
    cut(tmp_path)
    HashChain(tmp_path, EntryHasher()).append_entries(some(7), NOON)

    broken = verify_log(tmp_path, EntryHasher()).broken

    assert broken is not None and (broken.what, broken.seq) == ("truncated", 4)
    assert "entry 5 had been there" in broken.detail


def test_a_process_that_wrote_what_was_cut_knows_it_without_the_file(tmp_path: Path) -> None:
    chain = written(tmp_path, 5)
    cut(tmp_path)
    (tmp_path / HEAD_FILE).unlink()
    chain.append_entries(some(1), NOON)

    broken = verify_log(tmp_path, EntryHasher()).broken

    assert broken is not None and broken.what == "truncated"


def test_all_files_gone_are_missed(tmp_path: Path) -> None:
    written(tmp_path, 5)
    only_file(tmp_path).unlink()
    assert not verify_log(tmp_path, EntryHasher()).holds
    HashChain(tmp_path, EntryHasher()).append_entries(some(1), NOON)
    assert not verify_log(tmp_path, EntryHasher()).holds


@pytest.mark.parametrize("then", ["look", "go on"])
def test_a_head_that_is_gone_is_missed(tmp_path: Path, then: str) -> None:
    written(tmp_path, 5)
    cut(tmp_path)
    (tmp_path / HEAD_FILE).unlink()
    if then == "go on":
        HashChain(tmp_path, EntryHasher()).append_entries(some(1), NOON)

    broken = verify_log(tmp_path, EntryHasher()).broken

    assert broken is not None and broken.what == "truncated" and HEAD_FILE in broken.detail


def test_a_head_is_still_asked_for_when_the_first_file_was_retired(tmp_path: Path) -> None:
    chain = written(tmp_path, 3, 3)
    assert chain.remove_old_files(NOON + DAY, NOON + 2 * DAY, "retention_days") == 1
    assert verify_log(tmp_path, EntryHasher()).holds
    (tmp_path / HEAD_FILE).unlink()
    assert not verify_log(tmp_path, EntryHasher()).holds


def test_a_head_that_is_not_ours_is_told(tmp_path: Path) -> None:
    written(tmp_path, 5, seal=EntryHasher(KEY))
    cut(tmp_path)
    end = json.loads(lines_of(only_file(tmp_path))[-1])
    write_head(tmp_path, EntryHasher(), ChainHead(end["seq"], end["hash"]))  # without the key

    broken = verify_log(tmp_path, EntryHasher(KEY)).broken

    assert broken is not None and (broken.what, HEAD_FILE in broken.detail) == ("changed", True)
    (tmp_path / HEAD_FILE).write_bytes(b"\xff{")
    assert not verify_log(tmp_path, EntryHasher(KEY)).holds


def test_a_head_that_a_crash_left_behind_is_made_good(tmp_path: Path) -> None:
    chain = written(tmp_path, 2)
    before = (tmp_path / HEAD_FILE).read_bytes()
    chain.append_entries(some(3), NOON)
    (tmp_path / HEAD_FILE).write_bytes(before)

    behind = verify_log(tmp_path, EntryHasher())
    HashChain(tmp_path, EntryHasher()).append_entries([], NOON)
    whole = verify_log(tmp_path, EntryHasher())

    assert behind.holds and behind.kept is not None and behind.kept.seq == 2
    assert whole.holds and whole.kept == whole.head and whole.entries == behind.entries


def test_the_end_of_a_log_from_before_there_were_heads_is_not_vouched_for(tmp_path: Path) -> None:
    head, lines = NOWHERE, []
    for number, fields in enumerate([{"kind": "begin", "format": 1, "seal": "sha256"}, *some(3)]):
        entry = EntryHasher().seal_entry({**fields, "time": TIME, "seq": number, "prev": head.hash})
        head = ChainHead(number, entry["hash"])
        lines.append(encode_entry(entry) + b"\n")
    (tmp_path / "000000000000-2026-11-21.jsonl").write_bytes(b"".join(lines))
    old = verify_log(tmp_path, EntryHasher())
    assert old.holds and not old.is_end_known

    HashChain(tmp_path, EntryHasher()).append_entries(some(1), NOON)

    upgraded = verify_log(tmp_path, EntryHasher())
    assert upgraded.holds and upgraded.is_end_known
    (tmp_path / HEAD_FILE).unlink()
    assert not verify_log(tmp_path, EntryHasher()).holds


def test_a_log_and_its_head_written_anew_without_a_key_show_against_one_kept_elsewhere(
    tmp_path: Path,
) -> None:
    head = written(tmp_path, 5).append_entries([], NOON)
    cut(tmp_path)
    end = json.loads(lines_of(only_file(tmp_path))[-1])
    write_head(tmp_path, EntryHasher(), ChainHead(end["seq"], end["hash"]))

    assert verify_log(tmp_path, EntryHasher()).holds, "without a key nobody can tell from the files alone"
    broken = verify_log(tmp_path, EntryHasher(), head).broken
    assert broken is not None and (broken.what, broken.seq) == ("truncated", 4)


def test_a_chain_that_was_written_anew_shows_against_a_head_kept_elsewhere(tmp_path: Path) -> None:
    written(tmp_path / "true", 5)
    true_head = verify_log(tmp_path / "true", EntryHasher()).head
    forged = HashChain(tmp_path / "forged", EntryHasher())
    forged.open_chain(NOON)
    forged.append_entries(some(7, 1), NOON)

    broken = verify_log(tmp_path / "forged", EntryHasher(), true_head).broken

    assert broken is not None and (broken.what, broken.seq) == ("changed", 5)


def test_nobody_without_the_key_can_write_the_chain_anew(tmp_path: Path) -> None:
    written(tmp_path, 3, seal=EntryHasher(KEY))
    assert verify_log(tmp_path, EntryHasher(KEY)).holds
    file = only_file(tmp_path)
    entries = [json.loads(line) for line in lines_of(file)]
    before = "0" * 64
    for entry in entries:
        entry |= {"prev": before}
        before = EntryHasher().seal_entry(entry)["hash"]
        entry["hash"] = before
    file.write_bytes(b"".join(encode_entry(entry) + b"\n" for entry in entries))
    write_head(tmp_path, EntryHasher(), ChainHead(entries[-1]["seq"], before))

    assert verify_log(tmp_path, EntryHasher()).holds
    assert not verify_log(tmp_path, EntryHasher(KEY)).holds


def test_a_log_of_another_key_is_not_gone_on_with(tmp_path: Path) -> None:
    written(tmp_path, 1, seal=EntryHasher(KEY))
    with pytest.raises(HashChainError, match="another key"):
        HashChain(tmp_path, EntryHasher()).open_chain(NOON)


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_half_a_line_is_told_and_the_chain_goes_on_behind_it(tmp_path: Path, kept: int) -> None:
    chain = written(tmp_path, 2)
    head = (tmp_path / HEAD_FILE).read_bytes()
    chain.append_entries(some(1, 2), NOON)
    file = only_file(tmp_path)
    whole = file.read_bytes()
    last = lines_of(file)[-1]
    file.write_bytes(whole.removesuffix(last) + last[:kept])
    (tmp_path / HEAD_FILE).write_bytes(head)  # it is written behind the entries

    torn = verify_log(tmp_path, EntryHasher())
    HashChain(tmp_path, EntryHasher()).append_entries(some(1, 9), NOON)

    verdict = verify_log(tmp_path, EntryHasher())
    assert torn.holds and verdict.holds
    if kept == -1:  # only the end of the line is missing
        assert (torn.torn_end, verdict.torn, verdict.entries) == (False, 0, 5)
    else:
        assert (torn.torn_end, verdict.torn, verdict.entries) == (True, 1, 5)
        assert json.loads(lines_of(file)[-2])["kind"] == "torn"


def test_a_first_line_that_is_cut_off_costs_no_more_than_itself(tmp_path: Path) -> None:
    written(tmp_path)
    file = only_file(tmp_path)
    file.write_bytes(file.read_bytes()[:30])
    write_head(tmp_path, EntryHasher(), NOWHERE)
    chain = HashChain(tmp_path, EntryHasher())
    chain.open_chain(NOON)
    chain.append_entries(some(2), NOON)

    verdict = verify_log(tmp_path, EntryHasher())

    assert verdict.holds and verdict.torn == 1


def test_a_line_that_was_broken_by_hand_is_no_crash(tmp_path: Path) -> None:
    written(tmp_path, 3)
    file = only_file(tmp_path)
    lines = lines_of(file)
    lines[-1] = lines[-1][:40] + b"\n"
    file.write_bytes(b"".join(lines))

    broken = verify_log(tmp_path, EntryHasher()).broken

    assert broken is not None and (broken.what, broken.seq) == ("changed", 3)


def test_old_files_go_and_the_log_says_so(tmp_path: Path) -> None:
    chain = written(tmp_path, 2, 2, 2)
    first = list_log_files(tmp_path)[0]
    last_of_first = json.loads(lines_of(first.path)[-1])

    gone = chain.remove_old_files(NOON + DAY / 2, NOON + 3 * DAY, "retention_days=2")

    verdict = verify_log(tmp_path, EntryHasher())
    assert gone == 1 and not first.path.exists()
    assert verdict.holds and verdict.first == last_of_first["seq"] + 1
    assert [(each["first"], each["last"]) for each in verdict.gone] == [(0, last_of_first["seq"])]
    anchor = ChainHead(last_of_first["seq"], last_of_first["hash"])
    assert verify_log(tmp_path, EntryHasher(), anchor).holds


def test_all_that_is_old_goes_however_long_nothing_was_written(tmp_path: Path) -> None:
    chain = written(tmp_path, 2, 2)
    assert chain.remove_old_files(NOON + 90 * DAY, NOON + 100 * DAY, "retention_days=10") == 2
    assert len(list_log_files(tmp_path)) == 1
    assert verify_log(tmp_path, EntryHasher()).holds


def test_a_crash_in_the_middle_of_removing_leaves_a_log_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = written(tmp_path, 2, 2, 2)

    unlink = Path.unlink

    class Killed(Exception):
        pass

    def killed(self: Path, missing_ok: bool = False) -> None:
        if self.name.startswith("000000000000"):
            unlink(self)
        else:
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Path, "unlink", killed)
        chain.remove_old_files(NOON + 1.5 * DAY, NOON + 3 * DAY, "retention_days=1")
    half = verify_log(tmp_path, EntryHasher())
    HashChain(tmp_path, EntryHasher()).remove_old_files(NOON + 1.5 * DAY, NOON + 4 * DAY, "retention_days=1")

    whole = verify_log(tmp_path, EntryHasher())
    assert half.holds and whole.holds
    assert half.first is not None and whole.first is not None and half.first < whole.first


def test_a_file_that_somebody_else_removed_is_missed(tmp_path: Path) -> None:
    written(tmp_path, 2, 2, 2)
    files = list_log_files(tmp_path)
    files[0].path.unlink()
    first = verify_log(tmp_path, EntryHasher()).broken
    assert first is not None and (first.what, first.seq) == ("removed", 0)


def test_a_clock_that_goes_back_keeps_the_files_in_order(tmp_path: Path) -> None:
    chain = written(tmp_path, 1, 1)
    chain.append_entries(some(1), NOON)
    assert verify_log(tmp_path, EntryHasher()).holds


def test_a_key_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        EntryHasher(b"short")


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[str, int]]:
    """What happens to a log: entries, lines that are cut off by a crash, days, processes, retention."""
    steps = st.sampled_from(["append", "crash", "tomorrow", "restart", "retire", "back"])
    return draw(st.lists(st.tuples(steps, st.integers(0, 40)), max_size=25))


@given(lives())
def test_whatever_happens_to_a_log_it_holds(life: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as name:
        directory, now = Path(name), NOON
        chain = HashChain(directory, EntryHasher(), max_file_bytes=2000)
        chain.open_chain(now)
        for step, size in life:
            match step:
                case "append":
                    chain.append_entries(some(size % 5), now)
                case "crash":
                    newest = list_log_files(directory)[-1].path
                    whole = newest.read_bytes()
                    newest.write_bytes(whole + lines_of(newest)[-1][:size])
                case "tomorrow":
                    now += DAY
                case "back":
                    now -= DAY / 2
                case "restart":
                    chain = HashChain(directory, EntryHasher(), max_file_bytes=2000)
                case "retire":
                    chain.remove_old_files(now - size % 4 * DAY, now, "retention_days")
            verdict = verify_log(directory, EntryHasher())
            assert verdict.holds, (step, verdict.broken)
        head = chain.append_entries(some(1), now)
        assert verify_log(directory, EntryHasher(), head).holds


def test_a_head_that_cannot_be_written_costs_no_entry_twice(tmp_path: Path) -> None:
    chain = written(tmp_path, 2)
    beside = tmp_path / f"{HEAD_FILE}.new"
    beside.mkdir()
    chain.append_entries(some(1, 7), NOON)
    behind = verify_log(tmp_path, EntryHasher())
    beside.rmdir()
    chain.append_entries(some(1, 8), NOON)

    whole = verify_log(tmp_path, EntryHasher())
    assert behind.holds and behind.head != behind.kept
    assert whole.holds and whole.head == whole.kept and whole.entries == 5
