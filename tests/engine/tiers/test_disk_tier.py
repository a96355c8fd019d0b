"""The files of the disk tier: what is kept, what is refused, how large they grow."""

import random
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from radixway.engine.kv_identity import digest_fingerprint, digest_weight_files
from radixway.engine.tiers.disk_tier import (
    DIGEST_BYTES,
    DiskTier,
    SlabFile,
    SlabIndex,
    SlabRecord,
    chain_page_digests,
    collect_chains,
    open_disk_tier,
    slot_size_bytes,
)

MINE, OTHER = digest_fingerprint("mine"), digest_fingerprint("other")
PAGE = 1000
TOKENS = 8  # bytes of the tokens of a page


def opened(folder: Path, *, slots: int = 20, mine: bytes = MINE) -> DiskTier:
    disk = open_disk_tier(folder, (slots + 2) * slot_size_bytes(PAGE), PAGE, TOKENS, mine)
    assert disk is not None
    return disk


def prefix(pages: int, seed: int = 0) -> bytes:
    return chain_page_digests(MINE, "", random.Random(seed).randbytes(pages * TOKENS), TOKENS)


def content(digest: bytes) -> memoryview:
    """The page that belongs to a digest."""
    return memoryview(bytearray(random.Random(digest).randbytes(PAGE)))


def save(disk: DiskTier, digests: bytes) -> None:
    """Write what is not there yet of a prefix, as `TieredKVCache` does."""
    start, slots = disk.tier.store_pages(digests)
    each = [bytes(DIGEST_BYTES), *split(digests)]
    for slot, (parent, digest), page in zip(
        slots, list(pairwise(each))[start:], range(start, 99), strict=False
    ):
        disk.write_page(SlabRecord(slot, page, parent, digest, bytes(TOKENS)), content(digest))


def split(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]


def readable(disk: DiskTier, digests: bytes) -> int:
    """How many pages of a prefix can be read; each that can is right."""
    page = memoryview(bytearray(PAGE))
    for number, (slot, digest) in enumerate(zip(disk.tier.find_slots(digests), split(digests), strict=False)):
        if not disk.read_page(slot, digest, page):
            return number
        assert page == content(digest)
    return len(disk.tier.find_slots(digests))


def test_what_was_written_is_read_again_after_a_restart(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    save(disk, prefix(5))
    save(disk, prefix(5) + b"x" * DIGEST_BYTES)
    disk.close_files()
    again = opened(tmp_path)
    again.tier.check()
    assert readable(again, prefix(5) + b"x" * DIGEST_BYTES) == 6
    assert again.tier.num_pages == 6
    again.close_files()


def test_a_second_process_is_told_and_goes_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = opened(tmp_path)
    assert open_disk_tier(tmp_path, 10**6, PAGE, TOKENS, MINE) is None
    assert "another process uses" in caplog.text
    disk.close_files()
    opened(tmp_path).close_files()


def test_a_place_that_cannot_be_used_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert open_disk_tier(tmp_path / "file", 10**6, PAGE, TOKENS, MINE) is None
    (tmp_path / "kv.slab").mkdir()
    assert open_disk_tier(tmp_path, 10**6, PAGE, TOKENS, MINE) is None
    assert open_disk_tier(Path("a\0b"), 10**6, PAGE, TOKENS, MINE) is None
    assert open_disk_tier(Path("~nobody-of-that-name/cache"), 10**6, PAGE, TOKENS, MINE) is None
    assert caplog.text.count("cannot be used") == 4
    assert open_disk_tier(tmp_path / "new", 5000, PAGE, TOKENS, MINE) is None
    assert "are less than a page of" in caplog.text


@pytest.mark.parametrize("garbage", [b"x", b"not one of ours" * 1000, b"\0" * 100_000])
@pytest.mark.parametrize("file", ["kv.slab", "kv.index"])
def test_a_foreign_file_is_ignored_and_reported(
    tmp_path: Path, file: str, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk = opened(tmp_path)
    save(disk, prefix(3))
    disk.close_files()
    (tmp_path / file).write_bytes(garbage)
    again = opened(tmp_path)
    assert readable(again, prefix(3)) == 0
    assert "starts empty" in caplog.text
    save(again, prefix(4))
    assert readable(again, prefix(4)) == 4
    again.close_files()


def test_another_models_files_start_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = opened(tmp_path)
    save(disk, prefix(3))
    disk.close_files()
    other = opened(tmp_path, mine=OTHER)
    assert other.tier.num_pages == 0 and "another model" in caplog.text
    assert (tmp_path / "kv.slab").stat().st_size < 2 * slot_size_bytes(PAGE), "its room is given back"
    other.close_files()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("file", ["kv.slab", "kv.index"])
def test_a_truncated_file_keeps_what_is_left_of_it(tmp_path: Path, file: str, share: float) -> None:
    disk = opened(tmp_path)
    save(disk, prefix(10))
    disk.close_files()
    whole = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(whole[: int(len(whole) * share)])
    again = opened(tmp_path)
    again.tier.check()
    assert readable(again, prefix(10)) == (0 if share == 0 else pytest.approx(10 * share, abs=1.5))
    again.close_files()


def test_flipped_bytes_are_never_read_as_a_page(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    save(disk, prefix(10))
    disk.close_files()
    pick = random.Random(0)
    for file in ("kv.slab", "kv.index"):
        before = (tmp_path / file).read_bytes()
        for _ in range(60):
            damaged = bytearray(before)
            for at in pick.choices(range(len(damaged)), k=3):
                damaged[at] ^= pick.randrange(1, 256)
            (tmp_path / file).write_bytes(damaged)
            again = opened(tmp_path)
            again.tier.check()
            assert readable(again, prefix(10)) <= 10
            again.close_files()
            (tmp_path / "kv.index").write_bytes(
                before if file == "kv.index" else (tmp_path / "kv.index").read_bytes()
            )


def test_the_files_stay_within_their_bound_however_much_is_written(tmp_path: Path) -> None:
    disk = opened(tmp_path, slots=20)
    bound = 22 * slot_size_bytes(PAGE)
    for seed in range(100):
        save(disk, prefix(7, seed))
        disk.tier.check()
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= bound
    assert disk.tier.num_pages <= 20
    assert readable(disk, prefix(7, 99)) == 7
    disk.close_files()
    again = opened(tmp_path, slots=20)
    assert readable(again, prefix(7, 99)) == 7
    again.close_files()


def test_a_smaller_bound_keeps_what_fits(tmp_path: Path) -> None:
    disk = opened(tmp_path, slots=20)
    save(disk, prefix(15))
    disk.close_files()
    smaller = opened(tmp_path, slots=8)
    smaller.tier.check()
    assert 1 <= readable(smaller, prefix(15)) <= 8
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 10 * slot_size_bytes(PAGE)
    smaller.close_files()


def test_a_disk_that_fails_is_remembered_and_left_alone(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    save(disk, prefix(2))
    disk._slab.close_file()
    save(disk, prefix(4))
    assert isinstance(disk.failed, OSError)
    assert not disk.read_page(1, prefix(1), memoryview(bytearray(PAGE)))


def test_a_page_is_only_reached_through_all_before_it() -> None:
    a, b, c, d = (bytes([n]) * DIGEST_BYTES for n in range(4))
    one, two, three, other = whole = [
        SlabRecord(1, 0, a, a, b""),
        SlabRecord(2, 1, a, b, b""),
        SlabRecord(3, 2, b, c, b""),
        SlabRecord(4, 1, a, d, b""),
    ]
    assert collect_chains(whole) == [[one, two, three], [one, other]]
    assert collect_chains([one, three, other]) == [[one, other]], "three has lost the page before it"
    assert collect_chains([two, SlabRecord(1, 1, b, a, b"")]) == [], "a ring has no beginning"


def test_the_last_record_of_a_slot_counts_and_old_ones_go(tmp_path: Path) -> None:
    index = SlabIndex(tmp_path / "i", MINE, 3, TOKENS)
    for n in range(50):
        index.append_record(SlabRecord(1 + n % 3, 0, bytes(16), struct.pack("<QQ", n, 0), bytes(TOKENS)))
    index.close_file()
    again = SlabIndex(tmp_path / "i", MINE, 3, TOKENS)
    assert {r.slot: struct.unpack("<QQ", r.digest)[0] for r in again.records.values()} == {
        1: 48,
        2: 49,
        3: 47,
    }
    assert (tmp_path / "i").stat().st_size == 40 + 3 * (48 + TOKENS)
    again.close_file()


def test_an_index_that_cannot_be_rewritten_can_still_be_closed(tmp_path: Path) -> None:
    index = SlabIndex(tmp_path / "i", MINE, 1, TOKENS)
    (tmp_path / "i.new").mkdir()
    with pytest.raises(OSError):
        for n in range(4):
            index.append_record(SlabRecord(1, 0, bytes(16), struct.pack("<QQ", n, 0), bytes(TOKENS)))
    index.close_file()


def test_digests_depend_on_all_before_the_namespace_and_the_fingerprint() -> None:
    tokens = random.Random(0).randbytes(3 * TOKENS)
    digests = split(chain_page_digests(MINE, "", tokens + b"abc", TOKENS))
    assert len(digests) == 3
    assert split(chain_page_digests(MINE, "", tokens[: 2 * TOKENS], TOKENS)) == digests[:2]
    changed = split(chain_page_digests(MINE, "", b"x" + tokens[1:], TOKENS))
    for other in (
        changed,
        split(chain_page_digests(OTHER, "", tokens, TOKENS)),
        split(chain_page_digests(MINE, "s", tokens, TOKENS)),
    ):
        assert not set(other) & set(digests)
    assert digest_fingerprint("a", "bc") != digest_fingerprint("ab", "c")


def test_a_models_identity_is_its_content(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(5000))
    first = digest_weight_files(tmp_path)
    assert digest_weight_files(tmp_path) == first
    (tmp_path / "model.safetensors").write_bytes(bytes(4999) + b"\1")
    assert digest_weight_files(tmp_path) != first


def test_a_slab_tells_a_slot_that_holds_another_page(tmp_path: Path) -> None:
    slab = SlabFile(tmp_path / "slab", PAGE, 4, MINE)
    a, b = split(prefix(2))
    slab.write_slot(2, a, content(a))
    page = memoryview(bytearray(PAGE))
    assert slab.read_slot(2, a, page) and page == content(a)
    assert not slab.read_slot(2, b, page) and not slab.read_slot(3, a, page)
    slab.close_file()
